"""The stacks of a network, learned from images alone: no labels, no list of groups, no training.

Handwritten digits are turned by random quarter turns, which nobody tells the network. Its stacks
start as averages over positions; `learn_stacks` finds the permutations that leave the law of what
each layer sees unchanged. Printed: for each layer its elements and the seconds that it took; by
how much the output, with random weights, changes under a quarter turn; and the path of a picture
of the matrices on their way to permutations (drawn by Pillow, of the extra `data`).
"""

from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

from symshare import GroupConv2d, GroupPool, LiftConv2d, Sinkhorn, learn_stacks
from symshare.analysis import nearest_permutation

FILE = Path("runs/stacks_from_images.png")
seen: dict[str, list[list[Tensor]]] = {"0": [], "1": []}  # of each layer the rounds, step by step


def watch(layer: str, step: int, R: Tensor) -> None:
    """Keep the matrices of every step."""
    if step == 0:
        seen[layer].append([])
    seen[layer][-1].append(R)


def strip(path: list[Tensor]) -> Tensor:
    """Six matrices of a path side by side, 144 pixels wide, dark where an entry is 1."""
    some = [path[i * (len(path) - 1) // 5] for i in range(6)]
    large = [1 - torch.kron(R, torch.ones(2 * [144 // len(R)])) for R in some]
    return torch.cat([nn.functional.pad(R, (0, 4, 0, 4), value=0.6) for R in large], 1)


torch.manual_seed(0)
digits = torch.tensor(load_digits().images, dtype=torch.float32)
x = torch.stack([image.rot90(int(torch.randint(4, ()))) for image in digits])[:, None]
x = (x - x.mean()) / x.std()
lift, hidden = (Sinkhorn(4, positions, init="paper") for positions in (9, 4 * 9))
network = nn.Sequential(LiftConv2d(1, 8, 3, lift), GroupConv2d(8, 8, 3, hidden), GroupPool())
layers = learn_stacks(network, x, mass=0.999999, watch=watch)
rows = {}
for layer, stack in zip(layers, (lift, hidden), strict=True):
    print(f"layer {layer.name}: {layer.elements} elements, {layer.seconds:.1f} s")
    elements = nearest_permutation(stack())[1:].tolist()
    for path in seen[layer.name]:
        for g, end in enumerate(nearest_permutation(path[-1]).tolist()):
            if end in elements:
                rows[tuple(end)] = strip([R[g] for R in path])
with torch.no_grad():
    y, turned = (network(images).mean((-2, -1)) for images in (x, x.rot90(1, (2, 3))))
FILE.parent.mkdir(exist_ok=True)
Image.fromarray((torch.cat(list(rows.values())) * 255).byte().numpy()).save(FILE)
print(f"change under a quarter turn {(turned - y).norm() / y.norm():.0e}; picture {FILE}")
