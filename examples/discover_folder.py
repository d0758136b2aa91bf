"""From pictures in folders to a verdict, and to what they may be augmented with.

A folder with a folder of PNG files for each class is made first: arrows that point left or right.
Upside down an arrow means the same; a left-right mirror exchanges the two classes. The command line
does the same: `symshare discover arrows --ranges turn,noise`. Printed: the verdict in a sentence,
the advice that follows, and code to paste.
"""

from pathlib import Path

import torch
from PIL import Image

from symshare.cli import main
from symshare.records import VerdictRecord


def arrow(points_right: bool) -> Image.Image:
    """A picture of 20 x 20 pixels: a shaft, and a head at one end."""
    pixels = 0.2 * torch.rand(20, 20)
    top, start = (int(torch.randint(3, ())) for _ in range(2))
    pixels[top + 8 : top + 10, start + 3 : start + 15] += 0.7
    for step in range(4):
        pixels[top + 8 - step : top + 10 + step, start + 14 - step] += 0.4
    pixels = pixels if points_right else pixels.flip(1)
    return Image.fromarray((255 * pixels.clamp(0, 1)).byte().numpy())


torch.manual_seed(0)
for name in ("left", "right"):
    folder = Path("arrows") / name
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(500):
        arrow(name == "right").save(folder / f"{number}.png")
main(["discover", "arrows", "--ranges", "turn,noise", "--budget", "quick", "--out", "runs/arrows"])
record = VerdictRecord.read(Path("runs/arrows/verdict.json"))
print(record.sentence)
for line in record.advice:
    print(f"  {line.kind:9} {line.what}")
main(["advice", "runs/arrows", "--library", "torchvision"])
