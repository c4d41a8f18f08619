"""Check LoRA files against the models served, and find the LoRAs that jobs name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache, partial
from io import BytesIO
from typing import TypeVar

from api.intake.schemas import JobCreate
from api.intake.sources import ID
from api.intake.spool import Spool
from catalog.lora.header import HEAD_BYTES, Header, read_header
from catalog.lora.names import Shapes
from catalog.lora.parse import Pair, check_head, find_pairs
from core.errors import BadWeights, FieldError, InvalidRequest, LoraRefused, NotFound
from core.uploads.lora import AppliedLora, KeptLora
from core.uploads.upload import UploadKind
from core.variant import Model
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

    async def named(self, tenant: str, create: JobCreate) -> tuple[AppliedLora, ...]:
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


def fitting(able: Sequence[Model], loras: Sequence[AppliedLora]) -> tuple[Model, ...]:
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
