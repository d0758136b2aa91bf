"""The public names of symshare and their homes, for type checkers and for `__init__.py`."""

from . import groups as groups
from . import layers as layers
from .convert import BakeReport as BakeReport
from .convert import bake as bake
from .convert import export as export
from .convert import load_tensors as load_tensors
from .discovery.run import Discovery as Discovery
from .discovery.run import discover as discover
from .layers import GroupBatchNorm as GroupBatchNorm
from .layers import GroupConv1d as GroupConv1d
from .layers import GroupConv2d as GroupConv2d
from .layers import GroupConv3d as GroupConv3d
from .layers import GroupConvTranspose1d as GroupConvTranspose1d
from .layers import GroupConvTranspose2d as GroupConvTranspose2d
from .layers import GroupConvTranspose3d as GroupConvTranspose3d
from .layers import GroupHead as GroupHead
from .layers import GroupInstanceNorm as GroupInstanceNorm
from .layers import GroupLayerNorm as GroupLayerNorm
from .layers import GroupLinear as GroupLinear
from .layers import GroupMaxPool as GroupMaxPool
from .layers import GroupPool as GroupPool
from .layers import LiftConv1d as LiftConv1d
from .layers import LiftConv2d as LiftConv2d
from .layers import LiftConv3d as LiftConv3d
from .layers import LiftConvTranspose1d as LiftConvTranspose1d
from .layers import LiftConvTranspose2d as LiftConvTranspose2d
from .layers import LiftConvTranspose3d as LiftConvTranspose3d
from .layers import SpatialAvgPool as SpatialAvgPool
from .layers import SpatialMaxPool as SpatialMaxPool
from .moments import learn_stacks as learn_stacks
from .representations import Birkhoff as Birkhoff
from .representations import Fixed as Fixed
from .representations import Gated as Gated
from .representations import Kronecker as Kronecker
from .representations import Measure as Measure
from .representations import Representation as Representation
from .representations import Sinkhorn as Sinkhorn
from .representations import Stack as Stack
from .representations import shared as shared
from .sinkhorn import marginal_error as marginal_error
from .sinkhorn import project as project

__version__: str
