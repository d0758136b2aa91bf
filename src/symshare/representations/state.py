"""The version of what modules save."""

from typing import Any

from torch import nn


class Versioned(nn.Module):
    """A module that refuses the state of a newer version of itself.

    `torch.nn.Module` writes the number `_version` beside every state dict.
    """

    _version = 1

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        _, prefix, metadata = args[:3]
        saved = metadata.get("version") or self._version
        if saved > self._version:
            raise ValueError(
                f"{type(self).__name__}: the checkpoint has version {saved} of "
                f"{prefix.rstrip('.') or 'it'}, and this symshare knows {self._version}; upgrade "
                "symshare to read it"
            )
        super()._load_from_state_dict(*args, **kwargs)
