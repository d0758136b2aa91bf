"""What modules save: its version, and one name for what several layers share."""

import threading
import weakref
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


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


class Shareable(Versioned):
    """A module that several modules of a network may hold, with one name for all of them.

    torch gives a module as many names as there are ways to it. Then
    `torch.func.functional_call` exchanges its tensors once for each name and puts the wrong ones
    back, and a state dict holds them several times, which `safetensors` refuses. This one is
    walked and saved once, under the first name. It is loaded from any of its names, so state
    dicts that hold all of them fit as well.

    >>> stack = Shareable()
    >>> stack.weight = nn.Parameter(torch.ones(1))
    >>> network = nn.ModuleDict({"a": stack, "b": stack})
    >>> list(network.state_dict())
    ['a.weight']
    >>> network.load_state_dict({"b.weight": torch.zeros(1)})
    <All keys matched successfully>
    """

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Generator[tuple[str, nn.Module], None, None]:
        """As in torch, but `remove_duplicate=False` counts this module once all the same."""
        memo = set() if memo is None else memo
        if self not in memo:
            yield from super().named_modules(memo, prefix, remove_duplicate)
            memo.add(self)

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(_take_back)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As in torch, but nothing where the destination has it under another name."""
        destination, prefix = kwargs.get("destination"), kwargs.get("prefix", "")
        if hasattr(destination, "_metadata"):  # torch's own, of a module above this one
            where, first = _calls.saved.get(self, (None, prefix))
            if where is not None and where() is destination and prefix != first:
                return destination
            _calls.saved[self] = weakref.ref(destination), prefix
        return super().state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        _calls.prefix[self] = args[1]
        super()._load_from_state_dict(*args, **kwargs)


def _take_back(module: nn.Module, incompatible: Any) -> None:
    """Of a module that was loaded under several names, report what is missing under all of them.

    torch calls this each time that the module and all below it have been loaded.
    """
    prefix, missing = _calls.prefix[module], incompatible.missing_keys
    # What is shared within has been seen to.
    inner = [_calls.prefix[m] for m in module.modules() if m in _calls.prefix and m is not module]
    absent = {
        key.removeprefix(prefix)
        for key in missing
        if key.startswith(prefix) and not key.startswith(tuple(inner))
    }
    first = _calls.loaded.get(module)
    # One list serves one call of load_state_dict.
    if first is None or first.missing_keys is not missing:
        _calls.loaded[module] = _Load(missing, prefix, absent)
        return
    here = {prefix + name for name in absent if prefix != first.prefix}
    found = here | {first.prefix + name for name in first.absent - absent}
    missing[:] = [key for key in missing if key not in found]
    first.absent.intersection_update(absent)


class _Load(NamedTuple):
    """How loading a module has gone so far, in the call that this list belongs to."""

    missing_keys: list[str]
    prefix: str  # the first name
    absent: set[str]  # tensors that were found under no name


class _Calls(threading.local):
    """What calls of one thread have saved and loaded, and under which name.

    Kept beside the modules, so that copies and pickles of them hold no trace of it.
    """

    def __init__(self) -> None:
        self.saved = weakref.WeakKeyDictionary[nn.Module, tuple[weakref.ref[Any], str]]()
        self.loaded = weakref.WeakKeyDictionary[nn.Module, _Load]()
        self.prefix = weakref.WeakKeyDictionary[nn.Module, str]()


_calls = _Calls()


class Constant(Shareable):
    """Holds a tensor that moves with the module, and that nothing else changes.

    A copy, out of reach of the graph and the hands that the tensor came from. Not a buffer:
    `to_empty` and `load_state_dict(assign=True)` after a start on the meta device would lose its
    values, `half()` would round them, and an average of models mix them.

    >>> module = Constant(torch.eye(2)).to("meta").to_empty(device="cpu")
    >>> module()
    tensor([[1., 0.],
            [0., 1.]])
    """

    _where: Tensor

    def __init__(self, value: Tensor):
        super().__init__()
        self._origin = value.detach().clone()
        floating = value.dtype if value.is_floating_point() else None
        where = torch.empty(0, dtype=floating)
        self.register_buffer("_where", where, persistent=False)
        self._follow()

    def forward(self) -> Tensor:
        return self._value

    def _follow(self) -> None:
        dtype = self._where.dtype if self._origin.is_floating_point() else self._origin.dtype
        self._value = self._origin.to(self._where.device, dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Constant":
        super()._apply(fn, recurse)
        self._follow()
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self._where.is_meta:
            # Parameters that are assigned bring their device with them; this has none to assign.
            self._where = torch.empty(0, dtype=self._where.dtype)
            self._follow()
