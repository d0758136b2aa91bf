"""What the `result.json` of one network holds."""

from dataclasses import dataclass

from symshare.records.record import Record
from symshare.settings import Kind

__all__ = ["ResultRecord"]


@dataclass(frozen=True)
class ResultRecord(Record):
    """The outcome of one training run; its file is written last, so it marks a finished run.

    Attributes:
        model: Kind of network; the folder `found` of a discovery holds a `gcnn`.
        seed: Of split, initial weights, batches and transformations.
        val_loss: On the validation part at the end, in nats.
        val_accuracy: On the validation part at the end, a share.
        test_loss: On the test part, read once, in nats.
        test_accuracy: On the test part, read once, a share.
        parameters: Free parameters: base weights, biases, head.
        representation_parameters: Parameters of the representations, shared ones counted once.
        seconds: Wall time in s; of a resumed run, since it was resumed.
    """

    model: Kind
    seed: int
    val_loss: float
    val_accuracy: float
    test_loss: float
    test_accuracy: float
    parameters: int
    representation_parameters: int
    seconds: float
