"""Read and decode the inputs of a job in a CPU process. No torch."""

import hashlib
from concurrent.futures import Future
from dataclasses import replace
from io import BytesIO
from threading import BoundedSemaphore, Thread

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from catalog.prompts.embedding_file import read_vectors
from core.errors import (
    AtelierError,
    EngineError,
    ObjectMissing,
    ObjectsUnavailable,
    WeightsRefused,
)
from core.job import IP_PICTURE, Edit, Job, JobRequest
from core.placement import Placement
from core.traits import Use, may
from core.uploads.embedding import AppliedEmbedding
from worker.cpu.store_images import PATIENCE_S, store_of_process
from worker.diffusion.runner import (
    Borrowed,
    ControlImages,
    EditInputs,
    InitInputs,
    LearnedVectors,
    WordInputs,
)

FORMATS = ("PNG",)  #: as the api wrote it anew; what a client sent is decoded there alone
MAX_READERS = 4  #: of latents, at the same time
_readers = BoundedSemaphore(MAX_READERS)


def read_inputs(edit: Edit) -> EditInputs:
    """Read the template and the mask of an edit.

    Raises:
        EngineError: one is gone, is no image, or the two are not of one size.
        ObjectsUnavailable: the store did not give them in time.
    """
    template = _image("template", edit.template, "RGB")
    if edit.only_records:
        nothing = np.zeros(template.shape[:2], np.uint8)
        return EditInputs(template=template, mask=nothing, strength=edit.strength)
    mask = _image("mask", edit.mask, "L")
    if template.shape[:2] != mask.shape:
        sizes = " and ".join(f"{w}x{h}" for h, w in (template.shape[:2], mask.shape))
        raise EngineError(f"template and mask are of two sizes: {sizes}")
    return EditInputs(template=template, mask=mask, strength=edit.strength)


def read_init(request: JobRequest) -> InitInputs:
    """Read the picture that a job starts from, with those that its ControlNets keep to.

    Raises: as `read_inputs`.
    """
    init = request.init_image
    if init is None:
        raise EngineError("this job starts from no picture: one was asked for")
    image = _image("image", init.image, "RGB", (request.width, request.height))
    conditions = read_conditions(request).images
    return InitInputs(image=image, strength=init.strength, conditions=conditions)


def read_picture(request: JobRequest) -> InitInputs:
    """Read the picture that is to be enlarged.

    Raises: as `read_inputs`.
    """
    if request.upscale is None:
        raise EngineError("this job enlarges no picture: one was asked for")
    image = _image("picture", request.upscale.image, "RGB", (request.width, request.height))
    return InitInputs(image=image, strength=1.0)


def read_edit(request: JobRequest) -> EditInputs:
    """Read the images of an edit, with the pictures that its ControlNets keep to.

    Raises: as `read_inputs`.
    """
    if request.edit is None:
        raise EngineError("this job is no edit: its images were asked for as those of one")
    inputs = read_inputs(request.edit)
    if not request.controls:
        return inputs
    return replace(inputs, conditions=read_conditions(request).images)


def read_conditions(request: JobRequest) -> ControlImages:
    """Read the pictures that the ControlNets of a job keep to, at the size of the job.

    Raises: as `read_inputs`.
    """
    size = (request.width, request.height)
    return ControlImages(
        images=tuple(_image("condition", each.image, "RGB", size) for each in request.controls)
    )


def read_words(request: JobRequest) -> WordInputs:
    """Read what a job's prompts name, what its IP-Adapter shows, and whatever else it brings.

    Raises: as `read_inputs`.
    """
    use = request.ip_adapter
    return WordInputs(
        vectors={each.id: _vectors(each) for each in request.embeddings},
        shown=_image(IP_PICTURE, use.image, "RGB") if use else None,
        rest=_read_rest(request),
    )


def _read_rest(request: JobRequest) -> EditInputs | InitInputs | ControlImages | None:
    if request.edit is not None:
        return read_edit(request)
    if request.init_image is not None:
        return read_init(request)
    return read_conditions(request) if request.controls else None


def _vectors(embedding: AppliedEmbedding) -> LearnedVectors:
    name = f"embedding {embedding.id}"
    try:
        data = read_object(embedding.key)
        if hashlib.sha256(data).hexdigest() != embedding.sha256:
            raise EngineError(f"{name} is damaged in the store: add it again")
        return read_vectors(data)
    except ObjectMissing as error:
        raise EngineError(f"{name} is gone from the store: add it again") from error
    except WeightsRefused as error:
        raise EngineError(f"{name} cannot be read: {error}") from error


def may_borrow(job: Job) -> bool:
    """Tell whether a job goes on from latents that its placement names."""
    request, placement = job.request, job.placement
    needs_latents = placement.approximation.needs_latents
    return may(Use.BORROW, request) and needs_latents and placement.start is not None


def read_start(placement: Placement, budget_s: float) -> Borrowed | None:
    """Read the latents that a job was placed to go on from, once: there is no time to ask again.

    A store that hangs keeps one of few threads: not this process, in which images wait, nor its
    end.

    Raises:
        ObjectMissing: they are gone.
        ObjectsUnavailable: the store failed, did not answer in `budget_s`, or hangs on others.
    """
    if placement.start is None:
        return None
    if not _readers.acquire(blocking=False):
        raise ObjectsUnavailable(f"{MAX_READERS} reads hang")
    reading: Future[bytes] = Future()
    Thread(target=_read_start, args=(placement.start.key, reading), daemon=True).start()
    try:
        return Borrowed(skipped_steps=placement.skipped_steps, data=reading.result(budget_s))
    except TimeoutError as error:
        raise ObjectsUnavailable(f"no answer in {budget_s:g} s") from error


def _read_start(key: str, reading: "Future[bytes]") -> None:
    try:
        reading.set_result(store_of_process().get(key))
    except AtelierError as error:
        reading.set_exception(error)
    finally:
        _readers.release()


def _image(
    what: str, key: str, mode: str, size: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """Read an image, scaled as stock pipelines scale it where a size is given."""
    try:
        with Image.open(BytesIO(read_object(key)), formats=FORMATS) as image:
            converted = image.convert(mode)
            if size not in (None, converted.size):
                converted = converted.resize(size, Image.Resampling.LANCZOS)
            return np.asarray(converted)
    except ObjectMissing as error:
        raise EngineError(f"the {what} of this job is gone: send it again") from error
    except (UnidentifiedImageError, OSError) as error:
        raise EngineError(f"the {what} of this job is damaged: send it again") from error


@retry(
    retry=retry_if_exception_type(ObjectsUnavailable),
    wait=wait_random_exponential(0.1, max=2.0),
    stop=stop_after_delay(PATIENCE_S),
    reraise=True,
)
def read_object(key: str) -> bytes:
    """Read an object, asking again for `PATIENCE_S` while the store cannot serve.

    Raises: ObjectMissing, ObjectsUnavailable.
    """
    return store_of_process().get(key)
