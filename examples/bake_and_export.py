"""From a trained network to files that run without symshare.

A G-CNN learns the digits for a moment, and `bake` gives back the same function with ordinary
convolutions. Printed: by how much the outputs differ, how many times faster the baked network is,
and the files that `export` writes: safetensors (plain tensors), PT2 (a program for
`torch.export.load`) and ONNX, or how to get what ONNX needs.
"""

import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from symshare import Fixed, GroupBatchNorm, GroupConv2d, GroupPool, LiftConv2d, bake, export, groups


def seconds(network: nn.Module, x: Tensor) -> float:
    """The fastest of 20 calls."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        network(x)
        times.append(time.perf_counter() - start)
    return min(times)


torch.manual_seed(0)
pixels, labels = load_digits(return_X_y=True)
x, y = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(labels)
c4 = Fixed(groups.rotations(4))
network = nn.Sequential(
    *(LiftConv2d(1, 8, 3, c4), GroupBatchNorm(8), nn.ReLU()),
    *(GroupConv2d(8, 16, 3, c4), GroupBatchNorm(16), nn.ReLU()),
    *(GroupConv2d(16, 16, 4, c4), nn.ReLU()),
    *(GroupPool(), nn.Flatten(), nn.Linear(16, 10)),
)
optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
for _ in range(150):
    batch = torch.randint(len(x), (64,))
    loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

network.eval()
plain = bake(network)  # in eval mode, and batch norms folded into the convolutions
with torch.inference_mode():
    difference = (plain(x) - network(x)).abs().max()
    ratio = seconds(network, x[:1]) / seconds(plain, x[:1])
print(f"loss {loss:.2f}, outputs differ by {difference:.0e}, baked is {ratio:.1f} times as fast")
for format in ("safetensors", "pt2", "onnx"):
    try:
        print(export(plain, format, f"runs/baked/digits.{format}", x[:1]))
    except ImportError as missing:
        print(missing)
program = torch.export.load("runs/baked/digits.pt2").module()
print(f"the program answers {program(x[:5]).argmax(1).tolist()} to the digits {y[:5].tolist()}")
