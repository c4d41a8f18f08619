"""Open an image again: for its second pass, or where it stood with another worker. No torch.

A second pass is made from the image of the first, scaled up.
"""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
from PIL import Image

from core.errors import EngineError
from core.job import JobRequest
from core.levels.approximation import approximation_of
from core.log import get_logger
from worker.diffusion.image_state import ImageState
from worker.diffusion.runner import Borrowed, InitInputs, JobInputs, Pixels, Sample, WordInputs
from worker.engine.faults import Fault, attempt
from worker.engine.slot import Pending, SecondOpening, Ticket
from worker.engine.stats import PREPARING

log = get_logger(__name__)


def second_opening(
    request: JobRequest, pixels: Pixels | None, brought: JobInputs | None = None
) -> SecondOpening | None:
    """Prepare the second pass of an image, as one does between two stock pipelines; None: none.

    `brought`: by the job, of which its embeddings are kept. `pixels`: None where it is gone on with
    from latents of its own, which do not see the image again.
    Shapes: [H, W, 3].
    """
    following = request.following
    if following is None:
        return None
    size = (following.width, following.height)
    image = np.zeros((*size[::-1], 3), np.uint8)
    if pixels is not None:
        image = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))
    init = InitInputs(image=image, strength=following.strength)
    own = replace(brought, rest=init) if isinstance(brought, WordInputs) else init
    return SecondOpening(request=following, brought=own)


def resume(pending: Pending, state: ImageState) -> tuple[Pending, Sample | Fault] | None:
    """Open an image where it stood; None: it is begun anew, as it cannot go on from there."""
    ticket = pending.ticket
    opened = attempt(partial(_resumed, ticket, pending.index, state), PREPARING)
    if isinstance(opened, Fault) and opened.is_memory:
        return pending, opened
    del ticket.states[pending.index]
    if not isinstance(opened, Fault):
        return opened
    log.warning("state_not_used", job=ticket.job.id, reason=str(opened.error))
    return None


def _resumed(ticket: Ticket, index: int, state: ImageState) -> tuple[Pending, Sample]:
    """Open an image of a job where it stood; a second pass does not see its picture again.

    Raises: EngineError if it cannot go on from there.
    """
    again = second_opening(ticket.request, None, ticket.brought) if state.is_second else None
    if state.is_second and again is None:
        raise EngineError("the state is of a second pass, and this job has none")
    pending = Pending(ticket=ticket, index=index, again=again)
    brought = None if isinstance(pending.brought, Borrowed) else pending.brought
    sample: Sample = ticket.runner.open(pending.request, ticket.request.seeds[index], brought)
    with ExitStack() as undo:
        undo.callback(sample.close)
        repeated = ticket.runner.resume(sample, state.payload)
        undo.pop_all()
    sample.num_steps, sample.taken = state.steps, state.step - repeated
    sample.reached = approximation_of(state.reached)
    return pending, sample
