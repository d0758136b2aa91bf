"""The version of what modules save."""

from typing import Any

from torch import nn


class Versioned(nn.Module):
    """A module that refuses the state of a newer version of itself.

    `torch.nn.Module` writes the number `_version` beside every state dict.
    """

    _version = 1

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, local_metadata: dict, *args: Any
    ) -> None:
        saved = local_metadata.get("version") or self._version
        if saved > self._version:
            raise ValueError(
                f"{type(self).__name__}: the checkpoint has version {saved} of {prefix or 'it'}, "
                f"and this symshare knows {self._version}; upgrade symshare to read it"
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)
