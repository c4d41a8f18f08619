"""Parameters of OpenAI's images API; whatever else a body brings is a field of our own jobs."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from api.intake.schemas import Inbound, JobCreate, Named, Prompt
from api.services.requests import field_errors
from core.errors import FieldError, InvalidRequest

#: Images of one request, as OpenAI limits them; a service may allow fewer.
MAX_IMAGES = 10
MAX_PARTIAL_IMAGES = 3
#: Fields of our jobs that this API says in its own words.
OWN_WORDS = frozenset({"task", "template", "mask", "image", "width", "height", "webhook"})
#: What may stand in for a name where any model will do.
ANY_MODEL = "auto"

Size = Annotated[
    str, StringConstraints(max_length=11, pattern=r"^(auto|[1-9]\d{0,4}x[1-9]\d{0,4})$")
]
ImageQuality = Literal["auto", "standard", "low", "medium", "hd", "high", "xhigh", "max", "exact"]
#: Those for which a model makes the image in full: no approximation, no other model.
IN_FULL = frozenset({"hd", "high", "xhigh", "max", "exact"})


class ImageParams(Inbound):
    """What a request for images may say; null is as if it were left out."""

    model_config = ConfigDict(extra="allow")

    prompt: Prompt = Field(min_length=1, description="What the image shows.")
    model: Named | None = Field(
        None, description="A name of `GET /v1/models`, an alias, or `auto`: any that can make it."
    )
    n: int | None = Field(None, ge=1, le=MAX_IMAGES, description="Images.")
    size: Size | None = Field(
        None, description="`<width>x<height>` in pixels, or `auto`: the model's own."
    )
    quality: ImageQuality | None = Field(
        None, description="`high` and above: the model itself in full, nothing approximated."
    )
    response_format: Literal["url", "b64_json"] | None = Field(
        None, description="How images come: as base64 (default) or as URLs that expire."
    )
    output_format: Literal["png", "jpeg", "webp", "avif"] | None = Field(
        None, description="How images are encoded; PNG if left out."
    )
    output_compression: int | None = Field(
        None, ge=0, le=100, description="Quality of lossy formats, in percent; 100 if left out."
    )
    background: Literal["auto", "opaque"] | None = Field(
        None, description="Images are opaque; `transparent` is not made here."
    )
    stream: bool | None = Field(None, description="Answer by Server-Sent Events.")
    partial_images: int | None = Field(
        None, ge=0, le=MAX_PARTIAL_IMAGES, description="Of a stream: previews on the way."
    )
    moderation: Literal["auto", "low"] | None = Field(None, description="Read and not used.")
    style: Literal["vivid", "natural"] | None = Field(None, description="Read and not used.")
    user: Named | None = Field(None, description="Read and not used.")
    safety_identifier: Named | None = Field(None, description="Read and not used.")
    input_fidelity: Literal["low", "high"] | None = Field(None, description="Read and not used.")

    @property
    def more(self) -> dict[str, Any]:
        """Fields of our own jobs that came beside these."""
        return dict(self.model_extra or {})


def read_texts(fields: dict[str, str]) -> ImageParams:
    """Read the fields of a form, which are all texts.

    Raises:
        InvalidRequest: a field of this API has a value that it cannot have.
    """
    try:
        return ImageParams.model_validate(fields, strict=False)
    except ValidationError as error:
        raise InvalidRequest(field_errors(error)) from error


def check_words(params: ImageParams) -> None:
    """Refuse fields of our jobs that this API has other words for.

    Raises:
        InvalidRequest: it names them.
    """
    if wrong := sorted(OWN_WORDS & params.more.keys()):
        fault = "is said in this API's own words: `size`, and forms of /v1/images/edits"
        raise InvalidRequest([FieldError(name, fault) for name in wrong])


def _texts_of(kind: type[Inbound]) -> Iterator[str]:
    """Name the fields that are texts; those of an object as forms do, `name[key]`."""
    schema = kind.model_json_schema(ref_template="{model}")
    shared = schema.get("$defs", {})
    for name, described in schema["properties"].items():
        for each in described.get("anyOf", [described]):
            meant = shared.get(each.get("$ref"), each)
            if meant.get("type") == "string":
                yield name
            for key, inner in meant.get("properties", {}).items():
                if inner.get("type") == "string":
                    yield f"{name}[{key}]"


#: Fields of forms that are texts; any other is written as JSON.
TEXTS: Final = frozenset((*_texts_of(JobCreate), *_texts_of(ImageParams)))
#: Objects whose values are texts, whatever their keys.
TEXTS_BY_KEY: Final = frozenset({"metadata"})
