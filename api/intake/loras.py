"""Check LoRA files against the models served, and find the LoRAs that jobs name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache, partial
from io import BytesIO
from typing import TypeVar

from api.intake.draft import Draft
from api.intake.sources import ID
from api.intake.spool import Spool
from catalog.lora.header import HEAD_BYTES, Header, read_header
from catalog.lora.names import Shapes
from catalog.lora.parse import Pair, check_head, find_pairs
from core.errors import BadWeights, FieldError, InvalidRequest, LoraRefused, NotFound
from core.model import Model
from core.uploads.lora import KeptLora
from core.uploads.upload import UploadKind
from storage.tenants.uploads import Uploads

T = TypeVar("T")

#: Reads the layers of a model, by its name.
ReadShapes = Callable[[str], Shapes]


class LoraIntake:
    """Reads LoRA files, and the LoRAs that jobs name."""

    def __init__(
        self, *, loras: Uploads[KeptLora], models: Mapping[str, Model], shapes: ReadShapes
    ) -> None:
        """Prepare; each model's layers are read once, with the first LoRA."""
        self.loras = loras
        self._models = models
        self._shapes = cache(shapes)
        self._checking = asyncio.Semaphore(1)  # its threads share the interpreter with the loop

    async def take(
        self, spool: Spool, body: AsyncIterator[bytes], model: str | None
    ) -> tuple[tuple[str, ...], int]:
        """Take a file and tell which models it fits, or whether it fits this one.

        What its header says is checked before the rest of it is read. Also counts the layers that
        it changes.

        Raises: InvalidRequest saying why it fits none; ObjectsUnavailable.
        """
        names = self._names(model)
        await spool.take(body, until=HEAD_BYTES)
        async with self._checking:
            names = list(await asyncio.to_thread(self._check, names, spool))
        await spool.take(body)
        async with self._checking:
            fits = await asyncio.to_thread(self._read, names, spool)
        return tuple(fits), max(map(len, fits.values()))

    def _check(self, names: Sequence[str], spool: Spool) -> dict[str, None]:
        header = _header(spool, is_whole=False)
        return self._try(names, partial(check_head, header))

    def _read(self, names: Sequence[str], spool: Spool) -> dict[str, list[Pair]]:
        header = _header(spool, is_whole=True)
        with spool.whole() as data:
            return self._try(names, partial(find_pairs, data, header))

    def _names(self, model: str | None) -> list[str]:
        if model is not None and model not in self._models:
            known = ", ".join(self._models) or "(none served)"
            raise InvalidRequest([FieldError("model", f"must be one of {known}")])
        return [model] if model is not None else list(self._models)

    async def add(self, draft: Draft) -> Draft:
        """Find the LoRAs of a job, and keep the models that all of them fit.

        Raises: InvalidRequest naming each that is none, or is named twice, or fits no model left.
        """
        uses = draft.create.loras
        found = await asyncio.gather(*(self._find(use.id, draft.tenant) for use in uses))
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

    def _try(self, names: Sequence[str], read: Callable[[Shapes], T]) -> dict[str, T]:
        """Read a file for each of these models; those that it does not fit are left out.

        Raises: InvalidRequest saying why it fits none.
        """
        fits: dict[str, T] = {}
        reasons: dict[str, str] = {}
        for name in names:
            try:
                fits[name] = read(self._shapes(name))
            except (LoraRefused, BadWeights) as error:
                reasons[name] = str(error)
        if not fits:
            said = "; ".join(f"{reason} ({name})" for name, reason in reasons.items())
            raise InvalidRequest([FieldError("body", said or "no model is served")])
        return fits

    async def _find(self, lora_id: str, tenant: str) -> KeptLora | None:
        if not ID.fullmatch(lora_id):
            return None
        try:
            return await self.loras.get(UploadKind.LORA, lora_id, tenant)
        except NotFound:
            return None


def _header(spool: Spool, *, is_whole: bool) -> Header:
    head = spool.head(HEAD_BYTES)
    size = spool.size_bytes if is_whole else len(head)
    try:
        return read_header(BytesIO(head), size, is_whole=is_whole)
    except LoraRefused as error:
        raise InvalidRequest([FieldError("body", str(error))]) from error
