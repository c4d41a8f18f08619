"""What each field and parameter of the API means: one word, one meaning, wherever it stands. Pure.

A field that says what it is where it is defined needs no entry. `Schema.field` goes before `field`.
"""

from collections.abc import Iterator
from typing import Any, Final

WORDS: Final = {
    # common
    "object": "What kind of thing this is.",
    "id": "Its id.",
    "name": "Its name.",
    "data": "The things listed, newest first where they have a time.",
    "cursor": "Where the next page begins, at most 160 characters; null on the last page.",
    "limit": "How many are listed at most, 1 to 100.",
    "deleted": "True: it is gone.",
    "created_at": "When it was made. Epoch seconds.",
    "bytes": "Its size in bytes.",
    "sha256": "Hex digest of its bytes.",
    "url": "Where it can be fetched until it expires; read again for a new URL.",
    "expires_at": "When its URL stops working. Epoch seconds.",
    "content_type": "Its media type, such as `image/png`.",
    "width": "Pixels.",
    "height": "Pixels.",
    "type": "A short name of what happened, the same for equal causes.",
    "title": "What happened, in a line for a person.",
    "detail": "What happened here, and what to do.",
    "status": "Where it stands.",
    # jobs
    "model": "The model that makes it: a name of `GET /v1/models`.",
    "models": "Names of models.",
    "n": "Images of the job.",
    "steps": "Denoising steps.",
    "guidance": "How strongly the prompt is followed; up to 1 no negative prompt is weighed.",
    "seed": "The seed that makes this image alone.",
    "strength": "The share of the steps that is run on a picture that was brought, 0 to 1.",
    "second_pass": "Made larger in a second pass, if asked for.",
    "task": "What is done: an image is made, part of one made anew, or a picture enlarged.",
    "priority": "`interactive` jobs are served before `batch` jobs.",
    "metadata": "What the client keeps with the job: at most 16 texts of 512 characters.",
    "webhook": "Where to say what becomes of the job.",
    "started_at": "When a worker claimed it last. Epoch seconds; null before.",
    "finished_at": "When it ended. Epoch seconds; null before.",
    "deadline_at": "When it expires if it has not ended. Epoch seconds; null: never.",
    "slo_s": "Seconds from its acceptance in which it is promised.",
    "attempts": "How often it was tried, not counting losses that it may be innocent of.",
    "progress": "How far it has come.",
    "step": "Denoising steps done.",
    "queue_position": "Jobs that are served before it; null once it is not queued.",
    "eta_s": "Expected seconds until it is done; null: nobody can hold its model, or it has ended.",
    "placement": "Where it was put, and at which level.",
    "images": "What was made, once it has succeeded.",
    "error": "Why there is no image; null otherwise.",
    "timing": "Where its seconds went, once it has ended.",
    "urls": "Where to go from here.",
    "queue": "A queue of one model, or one worker's own queue of it.",
    "level": "The level it was made at: the model, `@`, and what was left out.",
    "skipped_steps": "Steps that were not made, because it began from another image's latents.",
    "affinity": "The class of its prompt.",
    "placed_by": "Who chose: the scheduler, or the last published plan.",
    "worker": "The worker that claimed it last; null before.",
    "queue_s": "Seconds from acceptance to claim.",
    "prepare_s": "Seconds from claim to its first step.",
    "denoise_s": "Seconds from its first step to its last.",
    "finish_s": "Seconds from its last step to the stored image.",
    "total_s": "Seconds from acceptance to the stored image.",
    "self": "Reads it.",
    "cancel": "Stops it.",
    "events": "Follows it.",
    "scale": "How strongly it acts.",
    "start": "Share of the steps from which it acts, 0 to 1.",
    "end": "Share of the steps up to which it acts, 0 to 1.",
    # errors
    "field": "The field that is wrong, as a path with dots.",
    "instance": "The path that was asked for.",
    "request_id": "Id of the request, as in `X-Request-Id` and in the log.",
    "errors": "What is wrong with which field.",
    "dependency": "What this service waits for.",
    "missing": "What is not ready.",
    "message": "What went wrong, and what to do.",
    "param": "The parameter that is wrong, if one is.",
    "code": "A short name of what went wrong.",
    # models, adapters
    "family": "Which architecture it is.",
    "tasks": "What it can do.",
    "levels": "Levels it is served at, the best first.",
    "samplers": "Samplers it takes.",
    "sizes": "Widths and heights it makes.",
    "min": "The least, in pixels.",
    "max": "The most, in pixels.",
    "multiple": "Every size is a multiple of so many pixels.",
    "default": "What is taken if a request names none, in pixels.",
    "StepsView.default": "Steps taken if a request names none.",
    "StepsView.max": "Most steps of a job.",
    "ModelView.created": "When its folder was described. Epoch seconds; 0: nobody knows.",
    "owned_by": "Always `atelier`: OpenAI's clients read it.",
    "ModelView.scale": "Of an upscaler: pixels a side that it makes of each of a picture; else 1.",
    "ModelView.steps": "Denoising steps it takes.",
    "default_guidance": "What is taken if a request names none.",
    "max_prompt_tokens": "Tokens of a prompt that its encoders read.",
    "reads": "Fields of a prompt that it reads beside `prompt`.",
    "size_gib": "GiB of its weights in the precision it runs in.",
    "ModelView.quality": "What its images are worth, 0 to 1; null: nobody has measured it.",
    "weights": "What its folder holds.",
    "is_resident": "Some worker holds it now, as last reported.",
    "is_loadable": "Some worker holds it or can load it, as far as the last plan knows.",
    "untried_on": "Types of device on which nobody knows its cost: it is given no work there.",
    "applications": "Names of the tenant's applications.",
    "max_images": "Most images of one job.",
    "max_prompt_chars": "Most characters of a prompt.",
    "ModelList.samplers": "Every sampler, with its own limit of steps if it has one.",
    "quality_floor": "Mean relative quality below which its jobs are not planned, 0 to 1.",
    "condition": "What its pictures show, such as outlines.",
    "modes": "Kinds of pictures it is told of, of a Union.",
    "is_adapter": "It is a T2I-Adapter: asked once for an image.",
    "max_controls": "Most controls of one job.",
    "layers": "Layers it changes.",
    "bound": "Of 50 steps, how many may run while it is loaded; null: as the profile says.",
    "token": "The word that stands for it in a prompt.",
    "vectors": "How many vectors its word is made of.",
    "pipeline": "The stock pipeline that its folder names.",
    "parameters": "How many weights it has.",
    "dtypes": "Precisions its files are in.",
    "files": "How many files of weights it has.",
    "variant": "The variant of its files, such as `fp16`; null: none.",
    "scheduler": "The sampler, or the scheduler that its folder names.",
    "distilled": "How it was distilled; null: it was not.",
    # facades
    "created": "When it was made. Epoch seconds.",
    "background": "What lies behind: images are opaque.",
    "output_format": "How images are encoded.",
    "quality": "`exact` or `high`: made in full by its own model.",
    "size": "Width and height in pixels, with an `x` between.",
    "b64_json": "The image itself, in base64; null where URLs were asked for.",
    # fleet, plan
    "workers": "Worker processes, as last reported; of a plan, the model that each is given.",
    "queues": "Queues, with what waits on them.",
    "device_type": "The type of its device.",
    "memory_gib": "GiB that it may fill with models.",
    "running": "Images in its batch.",
    "waiting": "Jobs that wait.",
    "max_slots": "Images that it makes at a time at most.",
    "step_s": "Seconds of its last steps.",
    "untried": "Models that nobody has timed there: made for those who name them.",
    "slowness": "Time of its steps in profiled ones; 0: not known.",
    "beat_at": "When it reported last. Epoch seconds.",
    "oldest_s": "Seconds that the first of them has waited.",
    "version": "Grows with every plan; of a model, the one version there is.",
    "made_at": "When it was made. Epoch seconds.",
    "policy": "Who made it.",
    "demand": "Forecast of each application. Jobs of default size a second.",
    "pasm": "For each class of prompts, which share goes to which level.",
    "PlanView.affinity": "Share of each class of prompts.",
    "PlanView.levels": "What is to be made at each level. Jobs of default size a second.",
    "saturation": "Share of the demand that the plan cannot serve, 0 to 1.",
    "costs": "What images cost, by type of device and model.",
    "resident": "Models that some worker holds.",
    "strategy": "Whether images may start from others' latents.",
    "switched": "When that changed last, and why.",
    "to": "What it changed to.",
    "at": "When. Epoch seconds.",
    "cause": "Why.",
    "application": "An application of the tenant, with an SLO and floor of its own.",
    "is_full": "It is for jobs that cannot start from latents.",
    "shares": "Share of each level.",
    "fixed_s": "Seconds of an image before its first and after its last step.",
    "CostView.steps": "Seconds of a step that so many images share.",
    "is_measured": "It was measured; false: it is guessed.",
    # webhooks, tenants
    "job": "The job that it tells of.",
    "event": "What it tells.",
    "replayed": "True: it is sent again.",
    "WebhookCreate.events": "What is told: `started`, `progress`, `completed`.",
    "WebhookCreate.url": "An https URL that is reachable from the service.",
    "WebhookView.url": "Where it should have gone.",
    "WebhookView.created_at": "When it was given up. Epoch seconds.",
    "ControlUse.id": "A ControlNet of `GET /v1/controlnets`.",
    "LoraUse.id": "A LoRA of `GET /v1/loras`.",
    "EmbeddingUse.id": "An embedding of `GET /v1/embeddings`.",
    "ControlUse.image": "The picture the image keeps to: an id, a `data:` URL or an https URL.",
    "LoraShown.id": "A LoRA of `GET /v1/loras`.",
    "ControlShown.id": "A ControlNet of `GET /v1/controlnets`.",
    "ControlShown.image": "Where the picture it kept to can be fetched, for as long as images.",
    "ControlShown.mode": "What the picture shows, to a Union ControlNet.",
    "EmbeddingShown.id": "An embedding of `GET /v1/embeddings`.",
    "IpAdapterShown.id": "A name of `GET /v1/ip-adapters`.",
    "IpAdapterShown.image": "Where the picture it showed can be fetched, for as long as images.",
    "JobView.loras": "The LoRAs that change the model.",
    "JobView.embeddings": "The learned words that its prompts say.",
    "JobView.controls": "The ControlNets that it keeps to, each with its picture.",
    "JobView.ip_adapter": "The IP-Adapter that shows it a picture.",
    "JobView.template": "Of an edit: where its template can be fetched, for as long as images.",
    "JobView.mask": "Of an edit: where its mask can be fetched, for as long as images.",
    "JobView.image": "Where the picture it starts from, or enlarges, can be fetched, likewise.",
    "JobView.seed": "Of the first image; image i uses seed + i.",
    "tenant": "Whose it is: 1 to 64 letters, digits, `_` and `-`.",
    "LimitsView.jobs_per_s": "Jobs accepted a second, in the long run.",
    "LimitsView.burst": "Jobs accepted at once; null: those of a second.",
    "LimitsView.open_jobs": "Jobs that have not ended, at most.",
    "LimitsView.images_a_day": "Images asked for on one day of UTC, at most.",
    "LimitsView.kept_bytes": "Bytes of images, of what jobs bring and of uploads, at most.",
    # parameters
    "wait": "Seconds to wait for its end, at most 60; 0: answer at once.",
    "key": "The key of an object.",
    "expires": "Until when the URL works. Epoch seconds.",
    "signature": "What signs the URL.",
    "epoch": "How often the tenant's URLs were taken back before it was signed.",
    "owner": "`atelier`.",
}


def describe(document: dict[str, Any]) -> None:
    """Say what every field and parameter of an OpenAPI document means that does not say so itself.

    A field of a job as it is shown means what it means in a request.
    """
    schemas = document["components"]["schemas"]
    asked = schemas.get("JobCreate", {}).get("properties", {})
    for schema, name, shown in _fields(schemas):
        own = f"{schema}.{name}"
        inherited = asked.get(name, {}).get("description") if schema == "JobView" else None
        _add(shown, WORDS.get(own) or inherited or WORDS.get(name))
    for parameter in _parameters(document["paths"]):
        noun = parameter["name"].removesuffix("_id")
        meant = f"Id of the {noun}." if parameter["name"].endswith("_id") else None
        _add(parameter, meant or WORDS.get(parameter["name"]))


def undescribed(document: dict[str, Any]) -> list[str]:
    """Name the fields and parameters that nobody has described."""
    fields = _fields(document["components"]["schemas"])
    found = [f"{schema}.{name}" for schema, name, shown in fields if "description" not in shown]
    parameters = _parameters(document["paths"])
    return found + [each["name"] for each in parameters if "description" not in each]


def _add(shown: dict[str, Any], meant: str | None) -> None:
    if meant and "description" not in shown:
        shown["description"] = meant


def _fields(schemas: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for schema, described in schemas.items():
        for name, shown in described.get("properties", {}).items():
            yield schema, name, shown


def _parameters(paths: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in paths.values():
        for operation in methods.values():
            yield from operation.get("parameters", ())
