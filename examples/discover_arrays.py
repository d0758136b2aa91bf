"""Which symmetries do your own arrays have? A verdict, the evidence, and a page that shows it.

The images are flags and boots: a pole with a block at its top or at its foot, somewhere in the
image, on a noisy ground. The block is as often left of the pole as right of it, so a left-right
flip changes nothing, while upside down a flag is a boot. `discover` is told none of this. Printed:
the verdict, for each candidate the loss that it costs on held-out images [nats] with its interval
at 95 % for all candidates together, the networks that were compared, and the path of the report.
"""

import torch
from torch import Tensor

import symshare


def flags_and_boots(count: int) -> tuple[Tensor, Tensor]:
    """Images [count, 12, 12] and labels [count]: 0 for a flag, 1 for a boot."""
    images, labels = 0.3 * torch.randn(count, 12, 12), torch.randint(2, (count,))
    for image, label in zip(images, labels, strict=True):
        top, pole = (int(torch.randint(*bounds, ())) for bounds in ((0, 5), (3, 9)))
        left = pole - 3 if torch.rand(()) < 0.5 else pole + 1
        block = top + 5 if label else top
        image[top : top + 8, pole] += 1
        image[block : block + 3, left : left + 3] += 1
    return images, labels


torch.manual_seed(0)
images, labels = flags_and_boots(1200)
discovery = symshare.discover(
    images, labels, classes=("flag", "boot"), budget="quick", out="runs/flags-and-boots"
)
print(f"verdict {discovery.verdict}, group {discovery.group}, found {', '.join(discovery.found)}")
for element in discovery.record.elements:
    low, high = element.interval
    cost = f"{element.excess_loss:6.3f} [{low:6.3f}, {high:6.3f}]"
    print(f"  {element.name:13} costs {cost}  {element.status}")
for name, seeds in discovery.record.accuracy.items():
    if seeds is not None:  # a verdict without a group compares fewer networks
        print(f"  {name:9} accuracy {seeds.mean:.1%} with {seeds.parameters} parameters")
print(f"report  {discovery.report}")
