"""Check ControlNet files against the models served, and find the kept ones that jobs name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache

from api.intake.draft import Draft
from api.intake.spool import Spool
from catalog.controlnet.encoder import Config, ControlNetEncoder, Traits
from catalog.controlnet.manifest import find_config, read_tensors
from catalog.lora.header import HEAD_BYTES
from core.errors import BadWeights, FieldError, InvalidRequest, NotFound
from core.model import Model
from core.uploads.controlnet import KeptControlNet, is_kept
from core.uploads.upload import UploadKind
from storage.tenants.uploads import Uploads

#: Reads what ControlNets copy of a model, by its name; None if none can steer it.
ReadEncoder = Callable[[str], ControlNetEncoder | None]


class KeptControlNets:
    """Reads ControlNet files, and the kept ControlNets that jobs name."""

    def __init__(
        self,
        *,
        records: Uploads[KeptControlNet],
        models: Mapping[str, Model],
        encoder: ReadEncoder,
    ) -> None:
        """Prepare; each model's encoder is read once, with the first ControlNet."""
        self.records = records
        self._models = models
        self._encoder = cache(encoder)
        self._checking = asyncio.Semaphore(1)  # its threads share the interpreter with the loop

    async def take(
        self, spool: Spool, body: AsyncIterator[bytes], model: str | None, traits: Traits
    ) -> tuple[tuple[str, ...], Config]:
        """Take a file and tell which models it steers, or whether it steers this one; its config.

        What its header says is checked before the rest of it is read.

        Raises: InvalidRequest saying why it steers none; ObjectsUnavailable.
        """
        if model is not None and model not in self._models:
            known = ", ".join(self._models) or "(none served)"
            raise InvalidRequest([FieldError("model", f"must be one of {known}")])
        names = [model] if model is not None else list(self._models)
        await spool.take(body, until=HEAD_BYTES)
        async with self._checking:
            await asyncio.to_thread(self._try, spool, names, traits, is_whole=False)
        await spool.take(body)
        async with self._checking:
            configs = await asyncio.to_thread(self._try, spool, names, traits, is_whole=True)
        config = next(iter(configs.values()))
        return tuple(name for name, own in configs.items() if own == config), config

    async def add(self, draft: Draft) -> Draft:
        """Keep the models that all kept ControlNets of a job steer.

        Raises: InvalidRequest naming each that is none, or the first that leaves no model.
        """
        left, wrong = draft.models, []
        for at, use in enumerate(draft.create.controls):
            if not is_kept(use.id):
                continue
            try:
                kept = await self.records.get(UploadKind.CONTROLNET, use.id, draft.tenant)
            except NotFound:
                wrong.append(FieldError(f"controls.{at}.id", "is the id of no ControlNet here"))
                continue
            left, before = tuple(each for each in left if each.name in kept.models), left
            if not left and before:
                names = ", ".join(each.name for each in before)
                fault = f"is for {', '.join(kept.models)}, not for {names}"
                wrong.append(FieldError(f"controls.{at}.id", fault))
        if wrong:
            raise InvalidRequest(wrong)
        return draft.keep(left)

    def _try(
        self, spool: Spool, names: Sequence[str], traits: Traits, *, is_whole: bool
    ) -> dict[str, Config]:
        """Give the config for each model that the file steers.

        Raises: InvalidRequest saying why it steers none.
        """
        try:
            tensors = read_tensors(spool.head(HEAD_BYTES), spool.size_bytes, is_whole=is_whole)
        except BadWeights as error:
            raise InvalidRequest([FieldError("body", str(error))]) from error
        configs: dict[str, Config] = {}
        reasons: dict[str, str] = {}
        for name in names:
            encoder = self._encoder(name)
            if encoder is None:
                reasons[name] = "ControlNets of its family are served from folders alone"
                continue
            try:
                configs[name] = find_config(tensors, encoder, traits)
            except BadWeights as error:
                reasons[name] = str(error)
        if not configs:
            said = "; ".join(f"{reason} ({name})" for name, reason in reasons.items())
            raise InvalidRequest([FieldError("body", said or "no model is served")])
        return configs
