"""Key of reusable template activations: edits with an equal recipe share them. Pure."""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass

from core.boards.image_work import ImageWork
from core.job import JobRequest
from core.levels.approximation import EXACT, Approximation
from core.model import Model
from core.traits import Key, Use, key_of, may

#: Hex digits that name a recording in reports: of a million no two are likely to be alike.
NAME_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Whatever a recording depends on beside the weights; the prompt of an edit is not among it."""

    values: tuple[tuple[str, Hashable], ...]  #: all that `core.traits` takes of a request, by name

    @classmethod
    def of(cls, request: JobRequest, seed: int, *, is_guided: bool) -> "Recipe":
        """Say what the edits of a template share that have the same noise and schedule."""
        taken = key_of(Key.RECORDING, request, is_guided=is_guided)
        return cls(values=tuple((taken | {"seed": seed}).items()))

    @property
    def template(self) -> Hashable:
        """SHA-256 of the image, hex."""
        return dict(self.values)["template"]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, hex."""
        return hashlib.sha256(repr(self.values).encode()).hexdigest()

    @property
    def name(self) -> str:
        """Name the recording in what workers report."""
        return self.digest[:NAME_DIGITS]


def works_of(
    job_id: str, request: JobRequest, model: Model, *, approximation: Approximation = EXACT
) -> tuple[ImageWork, ...]:
    """Say what each image of a request asks of a worker that holds the model."""
    edit = request.edit
    reuses = edit is not None and may(Use.REUSE, request)
    is_guided = model.is_guided(request.guidance)
    steps = approximation.steps_left(request.steps)
    return tuple(
        ImageWork(
            job=job_id,
            model=model.name,
            steps=max(1, int(steps * request.share)),
            rows=2 if is_guided else 1,
            pixels=request.width * request.height,
            masked=edit.masked if edit and reuses else 1.0,
            recording=Recipe.of(request, seed, is_guided=is_guided).name if reuses else "",
        )
        for seed in request.seeds
    )


def edit_works(job_id: str, request: JobRequest, model: Model) -> tuple[ImageWork, ...]:
    """Say likewise for an edit that a certain worker shall make: one that reuses its template.

    Nothing for other jobs: any worker that holds their model makes them as well as any other.
    """
    edit = request.edit
    if edit is None or edit.only_records or not may(Use.REUSE, request):
        return ()
    return works_of(job_id, request, model)
