"""May left and right leads be swapped? Six signals of a body, and what leaves their meaning alone.

A beat runs over six leads, stronger on the left or on the right; the label says how fast it is. A
body and its mirror image occur equally often: then left and right trade places and the last lead
changes its sign. Neither the exchange nor the sign alone is a symmetry, and played backwards a beat
is none. `discover` gets the names of the leads and is told none of this. Printed: the verdict in a
sentence, each candidate with its status, and a network that has the symmetry built in.
"""

import torch
from torch import Tensor

import symshare
from symshare import Fixed, LiftConv1d

LEADS = ("left arm", "right arm", "left leg", "right leg", "chest", "across")


def beats(count: int) -> tuple[Tensor, Tensor]:
    """Signals [count, 6, 48] and labels [count]: 0 for a slow beat, 1 for a fast one."""
    labels, time = torch.randint(2, (count,)), torch.arange(48) - 8
    width = torch.where(labels == 0, 12.0, 6.0)[:, None]
    # A sharp rise and a slow fall.
    beat = torch.exp(-time.clamp(min=0) / width) * torch.sigmoid(2.0 * time)
    strength = torch.tensor([2.0, 1.0, 1.2, 0.6, 1.5, 0.8])
    signals = strength[:, None] * beat[:, None] + 0.3 * torch.randn(count, 6, 48)
    mirrored = torch.rand(count) < 0.5
    signals[mirrored] = signals[mirrored][:, [1, 0, 3, 2, 4, 5]]
    signals[mirrored, 5] *= -1
    return signals, labels


torch.manual_seed(0)
signals, labels = beats(1500)
discovery = symshare.discover(
    signals, labels, layout="NCL", channels=LEADS, classes=("slow", "fast"), budget="quick",
    out="runs/leads",
)  # fmt: skip
print(discovery.record.sentence)
for element in discovery.record.elements:
    print(f"  {element.name:12} {element.status:10} loss {element.excess_loss:6.3f}")
layer = LiftConv1d(6, 8, kernel_size=5, representation=Fixed(discovery.action))
moved = discovery.action.apply(signals[0], 1)
error = (layer(moved[None])[:, :, [1, 0]] - layer(signals[:1])).abs().max().item()
print(f"a layer with it: mirrored leads exchange its two elements, to {error:.0e}")
print(f"report  {discovery.report}")
