"""What a second pass is made from: the image of the first, scaled up. No torch."""

from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from core.job import JobRequest
from worker.diffusion.runner import InitInputs, JobInputs, Pixels, WordInputs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondOpening:
    """What an image is opened with once its first pass is over."""

    request: JobRequest  #: of the second pass alone
    brought: JobInputs  #: the image, scaled up, beside the words that the job has learned


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
