"""A learned stack, from its start to a picture: which shifts of a ring does the data hold?

Twelve signals on a ring of 12 positions appear in every cyclic shift, with noise. The label says
which signal and which of the 12 unnamed elements acted; what an element *does*, a `Sinkhorn` stack
of 12 doubly stochastic matrices has to learn. Two things make it work: the matrices wait until the
weights have found the signals, and their entropy, which makes them sharp, counts late. Printed:
the mass on the nearest permutations on the way, the share of shifts recovered exactly, and the
path of a picture with three rows: the matrices at the start, at the end, and rounded (drawn by
Pillow, of the extra `data`).
"""

from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from symshare import GroupLinear, Sinkhorn, groups, shared
from symshare.analysis import nearest_permutation, vertex_gap

D, STEPS = 12, 700
FILE = Path("runs/learned_stack.png")


def picture(stacks: list[Tensor]) -> Image.Image:
    """One row for each stack [G, D, D], dark where an entry is 1, a pixel between matrices."""
    framed = torch.nn.functional.pad(torch.stack(stacks), (0, 1, 0, 1), value=0.5)
    grid = 1 - framed.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)
    image = Image.fromarray((grid.clamp(0, 1) * 255).byte().numpy())
    return image.resize((image.width * 6, image.height * 6), Image.Resampling.NEAREST)


torch.manual_seed(0)
shifts = groups.cyclic_shifts(D).lift(D)  # the truth [12, D, D]; only the data knows it
signals = torch.randn(D, D)
layer = GroupLinear(1, len(signals), Sinkhorn(D, positions=D, init="paper"), bias=False)
stack = layer.stack
start = stack().detach()
optimizer = torch.optim.Adam([layer.theta, *stack.parameters()], lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
for step in range(STEPS):
    c, g = torch.randint(len(signals), (256,)), torch.randint(D, (256,))
    x = torch.einsum("nde,ne->nd", shifts[g], signals[c]) + 0.1 * torch.randn(256, D)
    with shared(layer):  # projects the stack once a step, however often it is read
        distance = (x - layer.kernel()[c, g, 0]).square().sum(1).mean()
        entropy = torch.special.entr(stack()).sum((1, 2)).mean()
        optimizer.zero_grad()
        (distance + 0.3 * max(0, 2 * step / STEPS - 1) * entropy).backward()
    if step < 0.15 * STEPS:
        stack.zero_grad()  # Adam does not move what has no gradient
    optimizer.step()
    schedule.step()
    if step % 100 == 99:
        print(f"step {step + 1}: mass on nearest permutations {1 - vertex_gap(stack()).mean():.2f}")
R = stack.eval()().detach()
nearest = nearest_permutation(R)
recovered = (nearest == shifts.argmax(-1)).all(-1).double().mean()
FILE.parent.mkdir(exist_ok=True)
picture([start, R, torch.eye(D)[nearest]]).save(FILE)
print(f"recovered {recovered:.0%} of the shifts; picture {FILE}")
