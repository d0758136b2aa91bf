"""Your own tensors in your own training loop: a network for which quarter turns change nothing.

Two networks with about as many weights learn the same 400 digits, each turned by a random quarter
turn. The plain CNN has to learn every digit in four poses; the G-CNN has each kernel in four
poses instead. Printed for both: free parameters, accuracy on the other 1397 digits, and the
equivariance error, by how much the answers change, relative to their size, when images are turned.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from symshare import Fixed, GroupBatchNorm, GroupConv2d, GroupPool, LiftConv2d, groups
from symshare.analysis import equivariance_error

C4 = groups.rotations(4)


def turned_digits() -> tuple[Tensor, Tensor]:
    """Images [1797, 1, 8, 8], each turned at random, and labels [1797], in random order."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    turned = [C4.apply(image, int(torch.randint(len(C4), ()))) for image in images]
    order = torch.randperm(len(images))
    return torch.stack(turned)[order], torch.tensor(labels)[order]


def train(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    """An ordinary loop: layers of symshare are modules like any other."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for _ in range(300):
        batch = torch.randint(len(images), (64,))
        loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()


torch.manual_seed(0)
x, y = turned_digits()
# A group layer mixes 4 poses of 8 channels into 8: as many weights as 16 channels into 16.
gcnn = nn.Sequential(
    *(LiftConv2d(1, 8, 3, Fixed(C4)), GroupBatchNorm(8), nn.ReLU()),  # [B, 8, 4, 6, 6]
    *(GroupConv2d(8, 8, 3, Fixed(C4)), GroupBatchNorm(8), nn.ReLU()),  # [B, 8, 4, 4, 4]
    *(GroupConv2d(8, 8, 4, Fixed(C4)), nn.ReLU()),  # [B, 8, 4, 1, 1]
    *(GroupPool(), nn.Flatten(), nn.Linear(8, 10)),
)
cnn = nn.Sequential(
    *(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU()),
    *(nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU()),
    *(nn.Conv2d(16, 16, 4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 10)),
)
for name, network in {"plain CNN": cnn, "G-CNN (C4)": gcnn}.items():
    train(network, x[:400], y[:400])
    parameters = sum(p.numel() for p in network.parameters())
    accuracy = (network(x[400:]).argmax(1) == y[400:]).double().mean()
    error = equivariance_error(network, C4, x[400:]).max()
    print(f"{name:10}  {parameters} parameters  accuracy {accuracy:.1%}  error {error:.0e}")
