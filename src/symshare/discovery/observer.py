"""Who is told the steps of a discovery as they happen."""

from collections.abc import Mapping
from pathlib import Path

from symshare.discovery.config import DiscoveryConfig
from symshare.records import NetworkName, Ranges, ResultRecord, VerdictRecord


class Observer:
    """Is told every step of a discovery and does nothing; override what should be seen."""

    def started(
        self,
        config: DiscoveryConfig,
        parts: tuple[int, int, int],
        shape: tuple[int, ...],
        labels: str,
        folder: Path,
    ) -> None:
        """The data is there, and the folder, that the files are written to, is this run's.

        Args:
            config: of the discovery.
            parts: numbers of images for training, validation and test.
            shape: of an image, (C, H, W).
            labels: what they are, such as "10 classes".
            folder: of all files.
        """

    def proposed(self, sources: Mapping[str, int]) -> None:
        """Candidates are found: how many, the identity left out, by the source of each."""

    def progress(self, what: str, done: int, steps: int) -> None:
        """So many optimiser steps of a training, or pictures of the source, are done."""

    def judged(self, record: VerdictRecord) -> None:
        """The verdict is there; no network of the comparison has been trained."""

    def ranged(self, ranges: Ranges, record: VerdictRecord) -> None:
        """The sizes that the labels bear are known, and the advice of the record knows them."""

    def trained(self, name: NetworkName, result: ResultRecord) -> None:
        """One network of the comparison is trained and tested."""

    def finished(self, record: VerdictRecord, report: Path) -> None:
        """Everything is written, the report too."""
