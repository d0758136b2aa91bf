"""A large group at a small price: all 24 rotations of the cube, on voxels.

Seven shapes of four cubes, two of them mirror images of each other, are learned in one pose and
then shown in all 24. A group layer's stack R holds 24 matrices that mix 24 * 125 positions;
`Kronecker` keeps its two factors, one for group elements and one for voxels, and never forms R.
Printed: the memory of R and of its factors, how many of the 168 shapes in all poses are named
rightly, and the equivariance error, by how much the answers change, relative to their size, when
the shapes turn. About 1e-7 is rounding.
"""

import torch
from torch import Tensor, nn

from symshare import GroupBatchNorm, GroupConv3d, GroupPool, Kronecker, LiftConv3d, groups
from symshare.analysis import equivariance_error

CUBE = groups.cube()
SHAPES = {
    "line": [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)],
    "square": [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)],
    "L": [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)],
    "T": [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1)],
    "corner": [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)],
    "left screw": [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 1, 0)],
    "right screw": [(0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)],
}


def voxels() -> Tensor:
    """One volume [1, 9, 9, 9] for each shape."""
    volumes = torch.zeros(len(SHAPES), 1, 9, 9, 9)
    for volume, cubes in zip(volumes, SHAPES.values(), strict=True):
        for a, b, c in cubes:
            volume[0, 4 + a, 4 + b, 3 + c] = 1
    return volumes


torch.manual_seed(0)
x, y = voxels(), torch.arange(len(SHAPES))
action = Kronecker.from_action(CUBE, 5)  # one for all layers
network = nn.Sequential(
    *(LiftConv3d(1, 4, 5, action), GroupBatchNorm(4), nn.ReLU()),  # [B, 4, 24, 5, 5, 5]
    *(GroupConv3d(4, 8, 5, action), GroupBatchNorm(8), nn.ReLU()),  # [B, 8, 24, 1, 1, 1]
    *(GroupPool(), nn.Flatten(), nn.Linear(8, len(SHAPES))),
)
optimizer = torch.optim.AdamW(network.parameters(), lr=0.02)
for _ in range(80):
    loss = nn.functional.cross_entropy(network(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
network.eval()

G, P = len(CUBE), 5**3
print(f"R {4 * G * (G * P) ** 2 / 1e6:.0f} MB, its factors {4 * G * (G**2 + P**2) / 1e6:.1f} MB")
right = sum(int((network(CUBE.apply(x, g)).argmax(1) == y).sum()) for g in range(G))
error = equivariance_error(network, CUBE, x).max()
print(f"{right} of {G * len(x)} named rightly, equivariance error {error:.0e}")
