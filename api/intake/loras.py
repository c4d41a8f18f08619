"""Check LoRA files against the models served, and find the LoRAs that jobs name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial

from api.intake.draft import Draft
from api.intake.weights import Spool, WeightsIntake, read_for
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange, check_head, find_changes
from catalog.safetensors_header import Header
from core.errors import FieldError, InvalidRequest, WeightsRefused
from core.model import Model
from core.uploads.lora import KeptLora
from core.uploads.upload import UploadKind
from storage.tenants.uploads import Uploads

#: Reads the layers of a model, by its name.
ReadShapes = Callable[[str], Shapes]


class LoraIntake(WeightsIntake[KeptLora]):
    """Reads LoRA files, and the LoRAs that jobs name."""

    def __init__(
        self, *, records: Uploads[KeptLora], models: Mapping[str, Model], shapes: ReadShapes
    ) -> None:
        """Prepare; layers are read for each file: another model may have a name by then."""
        super().__init__(records, models)
        self._shapes = shapes

    async def take(
        self, spool: Spool, body: AsyncIterator[bytes], model: str | None
    ) -> tuple[tuple[str, ...], int]:
        """Take a file and tell which models it fits, or whether it fits this one.

        Also counts the layers that it changes.

        Raises: InvalidRequest saying why it fits none; ObjectsUnavailable.
        """
        check_head, check = partial(self._check_head, spool), partial(self._check, spool)
        fits = await self._take(spool, body, model, check_head, check)
        return tuple(fits), max(map(len, fits.values()))

    def _check_head(self, spool: Spool, names: Iterable[str]) -> Mapping[str, object]:
        header = _header(spool, is_whole=False)
        return read_for(names, lambda name: check_head(header, self._shapes(name)))

    def _check(self, spool: Spool, names: Iterable[str]) -> dict[str, list[LayerChange]]:
        header = _header(spool, is_whole=True)
        with spool.whole() as data:
            return read_for(names, lambda name: find_changes(data, header, self._shapes(name)))

    async def add(self, draft: Draft) -> Draft:
        """Find the LoRAs of a job, and keep the models that all of them fit.

        Raises: InvalidRequest naming each that is none, or is named twice, or fits no model left.
        """
        uses = draft.create.loras
        found = await asyncio.gather(
            *(self._find(UploadKind.LORA, use.id, draft.tenant) for use in uses)
        )
        applied, wrong, seen = [], [], set()
        for at, (use, lora) in enumerate(zip(uses, found, strict=True)):
            if lora is None:
                wrong.append(FieldError(f"loras.{at}.id", "is the id of no LoRA kept here"))
            elif use.id in seen:
                wrong.append(FieldError(f"loras.{at}.id", "is named twice: add the scales up"))
            else:
                applied.append(lora.used(use.scale))
            seen.add(use.id)
        if wrong:
            raise InvalidRequest(wrong)
        return draft.keep(draft.models, loras=tuple(applied))


def _header(spool: Spool, *, is_whole: bool) -> Header:
    try:
        return spool.header(is_whole=is_whole)
    except WeightsRefused as error:
        raise InvalidRequest([FieldError("body", str(error))]) from error
