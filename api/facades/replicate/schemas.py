"""Bodies that Replicate's clients send."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from api.intake.schemas import Inbound, Named

Event = Literal["start", "output", "logs", "completed"]
Url = Annotated[str, StringConstraints(min_length=1, max_length=2048)]


class PredictionCreate(Inbound):
    """What a client asks for."""

    version: Named | None = Field(
        None, description="`atelier/<model>`, `atelier/<model>:<version>`, or a version alone."
    )
    input: dict[str, Any] = Field(
        {},
        max_length=64,
        description="What models there call `num_inference_steps`, `guidance_scale`, "
        "`num_outputs`, `prompt_strength`, `image` and `mask`; or fields of `POST /v1/jobs`.",
    )
    webhook: Url | None = Field(None, description="Where to say what becomes of it.")
    webhook_completed: Url | None = Field(None, description="As `webhook`, at the end alone.")
    webhook_events_filter: list[Event] | None = Field(
        None, min_length=1, max_length=4, description="What to say of it; all if left out."
    )
    stream: bool | None = Field(None, description="Read and not used: any may be streamed.")
    data: None = Field(None, description="Read and not used.")
