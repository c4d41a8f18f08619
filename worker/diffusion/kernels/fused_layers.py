"""Run norms and gates of a model by kernels of few passes, where calls are told to.

Stock's layers stay what they are, and run as they are for everybody else.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn import GroupNorm

from worker.diffusion.forward_context import NOTHING, ContextPart, ForwardContext, HookedModel
from worker.diffusion.kernels.kernels import Kernels, kernels_of
from worker.diffusion.stock import Argument, Geglu, Module, Transformers, remove_hooks

_HOOK = "kernels"
#: Numbers of one row from which a kernel could no longer number them.
_MOST = 2**31
_PICTURES = 4  #: dimensions of features of pictures


class ByKernels(ContextPart):
    """Runs a call by the kernels that its model is hooked to."""


def fuse(device: torch.device, *models: Module) -> ForwardContext:
    """Hook models to kernels, if a device has any; give what calls of them are told then."""
    kernels = kernels_of(device)
    if kernels is None:
        return NOTHING
    for model in models:
        hook_layers(model, kernels)
    return ForwardContext(ByKernels())


def hook_layers(model: Module, kernels: Kernels) -> None:
    """Hook the layers of a model that kernels can stand for."""
    hooked = HookedModel.of(model)
    for module in model.modules():
        if isinstance(module, GroupNorm) and module.affine:
            hooked.hook(module, _HOOK, partial(_norm, kernels))
        elif isinstance(module, Geglu):
            hooked.hook(module, _HOOK, partial(_gate, kernels))
        elif isinstance(module, Transformers):
            hooked.hook(module, _HOOK, _attend)


def unfuse(model: Module) -> None:
    """Take a model off its kernels: a compiler has its own."""
    remove_hooks(model, _HOOK)


def _norm(
    kernels: Kernels, context: ForwardContext, whole: Argument, norm: Module, hidden: Tensor
) -> Tensor:
    if context.get(ByKernels) is None or hidden.ndim != _PICTURES or hidden[0].numel() >= _MOST:
        out: Tensor = whole(hidden)
        return out
    hidden = hidden.contiguous(memory_format=torch.channels_last)
    return kernels.group_norm(hidden, norm.num_groups, norm.weight, norm.bias, norm.eps)


def _attend(
    context: ForwardContext,
    whole: Argument,
    blocks: Module,
    hidden: Tensor,
    *args: Argument,
    **kwargs: Argument,
) -> Argument:
    """Attend to a picture, and leave its channels last: else all that follows copies them."""
    del blocks
    answer = whole(hidden, *args, **kwargs)
    if context.get(ByKernels) is None or not isinstance(answer, tuple):
        return answer
    attended, *others = answer
    return (attended.contiguous(memory_format=torch.channels_last), *others)


def _gate(
    kernels: Kernels, context: ForwardContext, whole: Argument, gate: Module, hidden: Tensor
) -> Tensor:
    if context.get(ByKernels) is None:
        out: Tensor = whole(hidden)
        return out
    return kernels.gated(gate.proj(hidden).contiguous())
