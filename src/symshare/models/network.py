"""What the networks have in common: they know their representations, and count parameters."""

from torch import nn

from symshare.groups import ChannelAction
from symshare.layers.convolution import Convolution
from symshare.representations import Representation, Stack


class GroupNetwork(nn.Module):
    """A network of one lifting convolution and group convolutions, in the order of their use."""

    lifting: Convolution

    @property
    def channel_action(self) -> ChannelAction | None:
        """The elements of the lifting layer, where they move the channels of images."""
        action = getattr(self.lifting.representation, "action", None)
        return action if isinstance(action, ChannelAction) else None

    def stacks(self) -> list[Stack]:
        """The stack of every convolution, the lifting one first."""
        return [m.stack for m in self.modules() if isinstance(m, Convolution)]

    def representation_parameters(self) -> int:
        """Number of parameters of the representations, shared ones counted once."""
        return sum(p.numel() for p in representation_parameters(self))

    def free_parameters(self) -> int:
        """Number of all other parameters: base weights, biases, norms and the head."""
        return sum(p.numel() for p in self.parameters()) - self.representation_parameters()


def representation_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Parameters of all representations in a network, each once."""
    found = {
        id(p): p
        for module in network.modules()
        if isinstance(module, Representation)
        for p in module.parameters()
    }
    return list(found.values())
