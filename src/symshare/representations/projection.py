"""Free logits, projected once for each state that they are in."""

from math import nan
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations.state import Shareable
from symshare.sinkhorn import Projected, entropies, project, sinkhorn
from symshare.sinkhorn.inputs import adapts
from symshare.sinkhorn.scaling import CONVERGED, TRAINING


class Projection(Shareable):
    """Logits [N, D, D] and their projection onto doubly stochastic matrices.

    In training, a projection starts from the potentials that the one before it ended with. The
    start moves on only when the logits have changed, so that gradient accumulation, the
    recomputation of activation checkpointing and every other forward pass of one step see the
    same R, bit by bit. In evaluation nothing moves, and the projection runs to convergence.

    Args:
        logits: where the parameter starts, [N, D, D].
        iterations: None for the limit of the Sinkhorn operator with its exact derivative; a
            number for that many sweeps, with the gradient through all of them.

    Attributes:
        logits: the parameter.
        potentials: where the next projection starts, [N, D]; saved with the parameter.

    >>> Projection(torch.zeros(2, 3, 3))()[0]
    tensor([[0.3333, 0.3333, 0.3333],
            [0.3333, 0.3333, 0.3333],
            [0.3333, 0.3333, 0.3333]], grad_fn=<SelectBackward0>)
    """

    potentials: Tensor
    _start: Tensor
    _seen: Tensor

    def __init__(self, logits: Float[Tensor, "N D D"], iterations: int | None = None):
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.iterations = iterations
        self.register_buffer("potentials", logits.new_zeros(logits.shape[:-1]))
        for name, value in self._nothing_seen().items():
            self.register_buffer(name, value, persistent=False)
        self._given: _Given | None = None

    def forward(self) -> Float[Tensor, "N D D"]:
        return self.projected().R

    def projected(self) -> Projected:
        """R, its entropies and its potentials; inside `shared`, those computed on entry."""
        # `torch.func.functional_call` puts other logits in the place of the parameter.
        if self._given is not None and self._given.answers(self.logits):
            return self._given.checked()
        found = _project(self.logits, self.begin(), self.moves, self.iterations)
        self.end(found.potentials)
        return found

    @property
    def kind(self) -> tuple:
        """Projections of one kind can be computed in one call, and differ in N only."""
        logits = self.logits
        return logits.shape[-1], self.iterations, logits.dtype, logits.device, self.moves

    def begin(self) -> Tensor:
        """Potentials to start from: new ones where the logits have changed since the last call."""
        if not self.moves:
            return self.potentials
        # By every entry: counters of changes miss those of `.data` and of compiled programs, and a
        # sum, or a part of the entries, misses some changes. Comparing and copying cost three
        # passes over the logits, a projection ten and more.
        now = self.logits.detach()
        if not adapts(now):
            changed = (now != self._seen).any()
            self._start.copy_(torch.where(changed, self.potentials, self._start))
            self._seen.copy_(now)
        elif not torch.equal(now, self._seen):
            self._start.copy_(self.potentials)
            self._seen.copy_(now)
        return self._start

    def end(self, potentials: Tensor) -> None:
        """Keep what the projection ended with, where it came to an end."""
        if self.moves:
            self.potentials.copy_(potentials)

    def _nothing_seen(self) -> dict[str, Tensor]:
        """The start that belongs to the logits last seen, and these, to tell them from others."""
        # What is made in inference mode could not be changed outside it.
        with torch.inference_mode(False):
            now = self.logits.detach()
            return {"_start": torch.zeros_like(now[..., 0]), "_seen": torch.full_like(now, nan)}

    @property
    def moves(self) -> bool:
        """Whether a projection leaves a warm start behind: in training, of a parameter that learns.

        Unrolled sweeps have no start. What `torch.func.functional_call` puts in the place of the
        parameter leaves no trace.
        """
        logits = self.logits
        learns = isinstance(logits, nn.Parameter) and logits.requires_grad
        return self.training and learns and self.iterations is None

    def share(self, found: Projected) -> None:
        """Answer with this until :meth:`unshare`."""
        self._given = _Given(self.logits, _version(self.logits), found)

    def unshare(self) -> None:
        """Compute R again when asked."""
        self._given = None

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: all but a shared R, which belongs to one graph."""
        return {**super().__getstate__(), "_given": None}

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        # Anew, since parameters that are assigned may be on another device than before.
        for name, value in self._nothing_seen().items():
            setattr(self, name, value)


class _Given(NamedTuple):
    """A projection, and the logits in the state that it belongs to."""

    logits: Tensor
    version: int
    found: Projected

    def answers(self, logits: Tensor) -> bool:
        """Whether it is of these logits, and has the gradient that is asked for."""
        differentiable = torch.is_grad_enabled() and logits.requires_grad
        return logits is self.logits and self.found.R.requires_grad >= differentiable

    def checked(self) -> Projected:
        if not torch.compiler.is_compiling() and _version(self.logits) != self.version:
            raise RuntimeError(
                "shared: the logits have changed since its start, so R no longer belongs to them; "
                "leave the block before the optimiser step"
            )
        return self.found


def project_together(projections: list[Projection]) -> None:
    """Project stacks of one kind in one call, and have each share its part."""
    first = projections[0]
    if len(projections) == 1:
        first.share(first.projected())
        return
    counts = [len(p.logits) for p in projections]
    logits = torch.cat([p.logits for p in projections])
    start = torch.cat([p.begin() for p in projections])
    found = _project(logits, start, first.moves, first.iterations)
    parts = zip(*(x.split(counts) for x in found), strict=True)
    for projection, part in zip(projections, parts, strict=True):
        part = Projected(*part)
        projection.end(part.potentials)
        projection.share(part)


def _version(logits: Tensor) -> int:
    """Number of changes in place, where torch counts them."""
    if torch.compiler.is_compiling() or logits.is_inference():
        return 0
    return logits._version


def _project(logits: Tensor, start: Tensor, warm: bool, iterations: int | None) -> Projected:
    if iterations is None:
        return project(logits, start, TRAINING if warm else CONVERGED)
    R = sinkhorn(logits, iterations)
    return Projected(R, entropies(R), start)
