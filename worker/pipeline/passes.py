"""Describe calls of a model that can be replayed: by its own code, or of an edit alone."""

from collections.abc import Callable, Sequence

from torch import Tensor

from worker.diffusion.forward_context import HookedModel
from worker.masking.edit_pass import EditPass
from worker.pipeline.packing import Packed
from worker.pipeline.step_graphs import Pass

#: Predicts for rows of latents at their times, as they are conditioned.
Call = Callable[[Tensor, Tensor, Packed], Tensor]


def plain_pass(call: Call, latents: Tensor, times: Tensor, packed: Packed) -> Pass:
    """Describe a call of which hooks are told nothing. Shapes: latents [B, C, h, w], times [B]."""
    return Pass(
        inputs=[latents, times, *packed.tensors()],
        run=lambda given: call(given[0], given[1], packed.told(given[2:])),
        key=tuple(packed.added or ()),
    )


def pass_of(edit: EditPass, plain: Pass, hooked: HookedModel) -> Pass:
    """Describe the same call for an edit, which hooks are told of."""
    own = len(plain.inputs)

    def run(given: Sequence[Tensor]) -> Tensor:
        with hooked.running(edit.told(given[own:])):
            return plain.run(given[:own])

    return Pass(
        inputs=[*plain.inputs, *edit.inputs()],
        run=run,
        key=(plain.key, edit.key),
        num_changed=edit.num_changed,
    )
