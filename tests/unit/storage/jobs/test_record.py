import typing
from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass, replace
from dataclasses import fields as fields_of
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.codec import decode, encode, encode_short
from core.job import (
    Control,
    Failure,
    Job,
    JobRequest,
    JobStatus,
    Priority,
    Progress,
    Quality,
    StoredImage,
    Task,
    Timing,
    WebhookTarget,
)
from core.levels.approximation import SKIPS
from core.placement import PlacedBy, Placement
from core.request.output import Output, OutputFormat
from storage.jobs.events import order_of
from storage.jobs.objects import keys_of
from storage.jobs.record import history_of, read_job
from storage.redis.script import pairs

PLACEMENT = Placement(queue="gen.m", model="m", level="m@0", placed_by=PlacedBy.PLAN)
IMAGE = StoredImage(key="t/j1/2/0.png", width=64, height=64, seed=7, sha256="00")

requests = st.builds(
    JobRequest,
    task=st.sampled_from(Task),
    prompt=st.text(),
    model=st.text(),
    width=st.integers(1, 4096),
    height=st.integers(1, 4096),
    steps=st.integers(1, 100),
    guidance=st.floats(0, 30),
    seed=st.integers(0, 2**64 - 1),
    negative_prompt=st.none() | st.text(),
    quality=st.sampled_from(Quality),
    priority=st.sampled_from(Priority),
    webhook=st.none()
    | st.builds(WebhookTarget, url=st.text(), events=st.just(("started", "completed"))),
    metadata=st.dictionaries(st.text(), st.text(), max_size=3),
)


@given(requests)
def test_a_request_is_read_as_it_was_written(request: JobRequest) -> None:
    assert decode(encode(request), JobRequest) == request
    assert decode(encode_short(request), JobRequest) == request


def test_what_has_its_default_is_not_written() -> None:
    request = JobRequest(
        prompt="p", model="m", width=64, height=64, steps=4, guidance=5.0, seed=1, eta=0.5
    )
    written = b'{"prompt":"p","model":"m","width":64,"height":64,"steps":4,"guidance":5.0,"seed":1'
    assert encode_short(request) == written + b',"eta":0.5}'
    controls = (Control(controlnet="c", image="k", end=0.5), Control(controlnet="d", image="l"))
    told = decode(encode_short(replace(request, controls=controls)), dict[str, object])
    assert told["controls"] == [
        {"controlnet": "c", "image": "k", "end": 0.5},
        {"controlnet": "d", "image": "l"},
    ]
    assert encode_short((IMAGE, Timing())) == b"[" + encode_short(IMAGE) + b",{}]"


#: What records mean that were written without it: none of this ever changes. New fields are added.
DEFAULTS: dict[str, object] = {
    "JobRequest.task": "generate",
    "JobRequest.n": 1,
    "JobRequest.eta": 0.0,
    "JobRequest.guidance_rescale": 0.0,
    "JobRequest.prompt_syntax": "plain",
    "JobRequest.output": {},
    "JobRequest.quality": "auto",
    "JobRequest.priority": "interactive",
    "JobRequest.metadata": {},
    **dict.fromkeys(
        f"JobRequest.{name}"
        for name in (
            *("negative_prompt", "prompt_2", "prompt_3", "negative_prompt_2"),
            *("negative_prompt_3", "clip_skip", "original_size", "crop", "target_size"),
            *("negative_original_size", "negative_crop", "negative_target_size", "edit"),
            *("init_image", "second_pass", "upscale", "ip_adapter", "scheduler"),
            *("sigma_spacing", "application", "slo_s", "webhook"),
        )
    ),
    **dict.fromkeys((f"JobRequest.{n}" for n in ("embeddings", "controls", "loras", "sigmas")), ()),
    "JobRequest.filled": (),
    "Edit.strength": 1.0,
    "Edit.masked": 1.0,
    "InitImage.strength": 0.8,
    "SecondPass.steps": None,
    "Control.scale": 1.0,
    "Control.start": 0.0,
    "Control.end": 1.0,
    "Control.mode": None,
    "Control.is_adapter": False,
    "AppliedIpAdapter.scale": 1.0,
    "AppliedLora.bound": None,
    "AppliedLora.scale": 1.0,
    "Output.format": "png",
    "Output.quality": None,
    "WebhookTarget.events": ("completed",),
    "WebhookTarget.format": "job",
    "Placement.skipped_steps": 0,
    "Placement.affinity": "any",
    "Placement.placed_by": "scheduler",
    "Placement.start": None,
    "StoredImage.size_bytes": 0,
    **dict.fromkeys(
        (f"Timing.{n}_s" for n in ("queue", "prepare", "denoise", "finish", "total")), 0.0
    ),
}


def kept(type_: object) -> Iterator[type[Any]]:
    """Find the dataclasses of which something may be made."""
    if is_dataclass(type_) and isinstance(type_, type):
        yield type_
    inner = typing.get_type_hints(type_).values() if is_dataclass(type_) else typing.get_args(type_)
    for each in inner:
        yield from kept(each)


def test_a_default_that_records_rely_on_never_changes() -> None:
    types = {each for root in (JobRequest, Placement, Timing, StoredImage) for each in kept(root)}
    made = {
        f"{each.__name__}.{field.name}": field.default
        if field.default_factory is MISSING
        else field.default_factory()
        for each in types
        for field in fields_of(each)
    }
    found = {name: default for name, default in made.items() if default is not MISSING}
    found["JobRequest.output"] = decode(encode_short(found["JobRequest.output"]), dict[str, object])
    assert found == DEFAULTS


def fields(**more: bytes) -> dict[bytes, bytes]:
    request = JobRequest(
        prompt="p", model="m", width=64, height=64, steps=4, guidance=5.0, seed=1, n=2
    )
    base = {
        "tenant": b"t",
        "request": encode(request),
        "placement": encode(PLACEMENT),
        "status": b"queued",
        "created_at": b"1000500",
        "attempts": b"0",
        "fence": b"0",
    }
    return {name.encode(): value for name, value in (base | more).items()}


def test_a_fresh_record_is_a_queued_job() -> None:
    job = read_job("j1", fields())
    assert isinstance(job, Job)
    assert (job.status, job.created_at, job.started_at) == (JobStatus.QUEUED, 1000.5, None)
    assert (job.images, job.failure, job.progress) == ((), None, Progress())


def test_a_finished_record_carries_all_there_is() -> None:
    failure = Failure(type="x", title="y")
    job = read_job(
        "j1",
        fields(
            status=b"failed",
            started_at=b"1001000",
            finished_at=b"1004000",
            deadline_at=b"1009000",
            worker=b"w@h",
            step=b"3",
            steps=b"4",
            images=encode((IMAGE,)),
            failure=encode(failure),
            timing=encode(Timing(denoise_s=2.0, queue_s=99.0)),
        ),
    )
    assert (job.images, job.failure, job.worker) == ((IMAGE,), failure, "w@h")
    assert (job.finished_at, job.deadline_at) == (1004.0, 1009.0)
    assert job.progress == Progress(step=3, steps=4)
    assert job.timing == Timing(queue_s=0.5, denoise_s=2.0, total_s=3.5)


def test_only_the_store_measures_waiting_and_total_time() -> None:
    assert Timing(total_s=9.0, queue_s=9.0).measured(1.0, None, None) == Timing()


def test_a_flat_reply_gets_its_shape_back() -> None:
    assert pairs([b"a", b"1", b"b", b"2"]) == {b"a": b"1", b"b": b"2"}


def test_lost_attempts_are_swept_with_the_published_images() -> None:
    request = fields()[b"request"]
    images = encode((IMAGE,))
    once = encode((StoredImage(key="t/j1/1/0.png", width=1, height=1, seed=1, sha256=""),))
    latents = tuple(sorted(f"latents/t/j1/{k}.safetensors" for k in SKIPS))
    assert keys_of(b"j1", b"t", b"1", request, once) == (*latents, "t/j1/1/0.png")
    assert keys_of(b"j1", b"t", b"1,2", request, images) == (
        *latents,
        "t/j1/1/0.png",
        "t/j1/1/1.png",
        "t/j1/2/0.png",
        "t/j1/2/1.png",
    )
    webp = Output(format=OutputFormat.WEBP, quality=90)
    written = encode(replace(decode(request, JobRequest), output=webp))
    assert keys_of(b"j1", b"t", b"1,2", written, b"") == (
        *latents,
        "t/j1/1/0.webp",
        "t/j1/1/1.webp",
        "t/j1/2/0.webp",
        "t/j1/2/1.webp",
    )
    assert keys_of(b"j1", b"t", b"", request, b"") == ()
    controls = tuple(Control(controlnet="edges", image=f"t/j1/inputs/c{i}.png") for i in range(2))
    steered = encode(replace(decode(request, JobRequest), controls=controls))
    assert keys_of(b"j1", b"t", b"", steered, b"") == tuple(each.image for each in controls)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=9))
def test_what_is_told_of_a_job_later_is_in_order_however_its_fences_ran_ahead(times):
    *claims, ended = times
    history = ",".join(f"{fence}:{at}" for at, fence in enumerate(claims, 1))
    fields = {b"history": history.encode(), b"finished_at": str(ended).encode()}
    fields |= {b"fence": b"9", b"status": b"succeeded"}
    events = history_of(fields)
    assert [event.event for event in events] == ["status"] * len(claims) + ["done"]
    orders = [order_of(event.id) for event in events]
    assert orders == sorted(set(orders))
    if times == sorted(set(times)):
        assert [event.id for event in events] == [f"{at}-0" for at in times]
