"""Energies of all starts of the search against its steps, of a lifting and of a hidden layer.

    python -m experiments.studies.residuals --root DIR --out docs/pictures

Table 1's network on rotated MNIST, with its stacks learned; then the search runs once more on what
the lifting layer and the first group layer see, and every start is followed. Written are
`residuals-lifting.png` and `residuals-hidden.png`: the root of the energy in units of noise, as
mean and standard deviation over the starts that ended at an element and over those that asked for
what there is not.
"""

import argparse
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.figures import curves, save
from experiments.moments.running import Case, images_of, network_of
from symshare import learn_stacks
from symshare.analysis import nearest_permutation
from symshare.layers.convolution import Convolution
from symshare.moments import Moments, commutant, of_layer


def main(options: list[str] | None = None) -> None:
    """Learn, follow and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    case = Case("mnist", "rotate:360", "all")
    data = images_of(case, 0, arguments.root)
    torch.manual_seed(0)
    net = network_of(case, data)
    learn_stacks(net, data.images, data.labels, mass=1 - 1e-6)
    convolutions = [module for module in net.modules() if isinstance(module, Convolution)]
    for name, layer in zip(("lifting", "hidden"), convolutions, strict=False):
        moments = of_layer(net, layer, data.images, data.labels)
        figure = curves(followed(moments), "step", "root of the energy")
        save(figure, arguments.out / f"residuals-{name}.png")


def followed(moments: Moments) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Steps, mean and spread of what became of the starts."""
    rounds: list[list[tuple[Tensor, Tensor]]] = []

    def watch(step: int, R: Float[Tensor, "S D D"]) -> None:
        if step == 0:
            rounds.append([])
        rounds[-1].append((moments.energy(R).sqrt(), R))

    elements = commutant(moments, watch=watch).sources.tolist()
    ways: dict[bool, list[Tensor]] = {True: [], False: []}
    longest = max(map(len, rounds))
    for steps in rounds:
        energies = torch.stack([energy for energy, _ in steps])
        # A round that ended early stays where it ended.
        energies = torch.cat([energies, energies[-1:].expand(longest - len(steps), -1)])
        ends = nearest_permutation(steps[-1][1]).tolist()
        for start, end in enumerate(ends):
            ways[end in elements].append(energies[:, start])
    series = {}
    for found, lines in ways.items():
        if lines:
            all_lines = torch.stack(lines)
            name = f"{'an element' if found else 'none there'} ({len(lines)})"
            spread = all_lines.std(0) if len(lines) > 1 else torch.zeros(longest)
            series[name] = (torch.arange(longest), all_lines.mean(0), spread)
    return series


if __name__ == "__main__":
    main()
