"""Message types of the two ranks; tensors follow each message. Pure."""

from dataclasses import dataclass

from catalog.lora.forms import Form
from catalog.lora.names import Rows

#: LoRAs of a row, each by id with its strength, and whether they are applied in one way only.
MixKey = tuple[tuple[tuple[str, float], ...], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNote:
    """A change of one layer that is known only as a whole."""

    layer: str
    form: Form
    tensors: tuple[str, ...]
    scale: float
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraNote:
    """A LoRA that the second rank has not got yet.

    Behind: down and up of each layer, and its bias if it has one; then the tensors of its wholes.
    """

    id: str
    layers: tuple[str, ...]
    scales: tuple[float, ...]
    has_bias: tuple[bool, ...]
    wholes: tuple[WholeNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowConditions:
    """What some rows of the second rank are told at every step, until somebody joins or leaves.

    Behind: text, what is added, the embedded guidance if there is one, LoRAs.
    """

    number: int  #: of these conditions
    forgotten: tuple[int, ...]  #: conditions that no step will name again
    added: tuple[str, ...]  #: names
    has_time_cond: bool
    mixes: tuple[MixKey, ...]  #: of each row
    loras: tuple[LoraNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Predict these rows. Behind: latents, [rows, C, h, w]."""

    number: int  #: of their conditions
    times: tuple[float, ...]  #: of each row
    is_steered: bool  #: whether residuals follow, before the decoder needs them


@dataclass(frozen=True, slots=True, kw_only=True)
class SentResiduals:
    """What is added to some rows. Behind: residuals of each of these."""

    rows: tuple[tuple[int, int], ...]  #: first row and the one after the last
    counts: tuple[int, ...]  #: of residuals


@dataclass(frozen=True, slots=True)
class ResidualsLost:
    """Residuals do not come: the first rank has failed."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Behind: predictions, [rows, C, h, w]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionFailed:
    """The second rank could not predict, and is ready for the next step."""

    reason: str
    is_memory: bool


Message = RowConditions | Step | SentResiduals | ResidualsLost | Predicted | PredictionFailed
