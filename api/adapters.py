"""Which models does a LoRA fit, and which LoRAs does a job name? Checked before any is kept."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from api.schemas import JobCreate
from api.sources import ID
from core.errors import BadWeights, FieldError, InvalidRequest, LoraRefused, NotFound
from core.lora import Lora, LoraUse
from core.upload import UploadKind
from core.variant import Model
from storage.uploads import Uploads
from worker.lora.names import Shapes
from worker.lora.parse import Pair, parse

#: Reads the layers of a model, by its name.
ReadShapes = Callable[[str], Shapes]


class Adapters:
    """Reads LoRA files, and the LoRAs that jobs name."""

    def __init__(
        self, *, loras: Uploads[Lora], models: Mapping[str, Model], shapes: ReadShapes
    ) -> None:
        """Prepare; each model's layers are read once, with the first LoRA."""
        self.loras = loras
        self._models = models
        self._shapes = cache(shapes)

    async def read(self, data: bytes, model: str | None) -> tuple[tuple[str, ...], int]:
        """Tell which models a file fits, or whether it fits this one; count the layers it changes.

        Raises: InvalidRequest saying why it fits none.
        """
        if model is not None and model not in self._models:
            known = ", ".join(self._models) or "(none served)"
            raise InvalidRequest([FieldError("model", f"must be one of {known}")])
        names = [model] if model is not None else list(self._models)
        fits, reasons = await asyncio.to_thread(self._try, data, names)
        if not fits:
            said = "; ".join(f"{reason} ({name})" for name, reason in reasons.items())
            raise InvalidRequest([FieldError("body", said or "no model is served")])
        return tuple(fits), max(map(len, fits.values()))

    async def named(self, tenant: str, create: JobCreate) -> tuple[LoraUse, ...]:
        """Find the LoRAs of a job.

        Raises: InvalidRequest naming each that is none, or is named twice.
        """
        found = await asyncio.gather(*(self._find(use.id, tenant) for use in create.loras))
        uses, faults, seen = [], [], set()
        for at, (asked, lora) in enumerate(zip(create.loras, found, strict=True)):
            if lora is None:
                faults.append(FieldError(f"loras.{at}.id", "is the id of no LoRA kept here"))
            elif asked.id in seen:
                faults.append(FieldError(f"loras.{at}.id", "is named twice: add the scales up"))
            else:
                uses.append(lora.used(asked.scale))
            seen.add(asked.id)
        if faults:
            raise InvalidRequest(faults)
        return tuple(uses)

    def _try(
        self, data: bytes, names: Sequence[str]
    ) -> tuple[dict[str, list[Pair]], dict[str, str]]:
        """Give what the file holds for each model that it fits, and why it does not fit others."""
        fits: dict[str, list[Pair]] = {}
        reasons: dict[str, str] = {}
        for name in names:
            try:
                fits[name] = parse(data, self._shapes(name))
            except (LoraRefused, BadWeights) as error:
                reasons[name] = str(error)
        return fits, reasons

    async def _find(self, lora_id: str, tenant: str) -> Lora | None:
        if not ID.fullmatch(lora_id):
            return None
        try:
            return await self.loras.get(UploadKind.LORA, lora_id, tenant)
        except NotFound:
            return None


def fitting(able: Sequence[Model], loras: Sequence[LoraUse]) -> tuple[Model, ...]:
    """Return those of `able` that all LoRAs of a job fit.

    Raises: InvalidRequest if there is none; the first LoRA that rules the last out is named.
    """
    left = tuple(able)
    for at, use in enumerate(loras):
        left, before = tuple(model for model in left if model.name in use.models), left
        if not left:
            names = ", ".join(model.name for model in before)
            fault = f"fits {', '.join(use.models)}, and the request leaves {names}"
            raise InvalidRequest([FieldError(f"loras.{at}.id", fault)])
    return left
