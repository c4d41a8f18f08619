"""Which models does a ControlNet file steer, and may a job name it? Checked before any is kept."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from api.schemas import JobCreate
from core.controlnet import KeptControlNet, is_kept
from core.errors import BadWeights, FieldError, InvalidRequest, NotFound
from core.upload import UploadKind
from core.variant import Model
from storage.uploads import Uploads
from worker.control.manifest import Config, Encoder, read_config

#: Reads what ControlNets copy of a model, by its name; None if none can steer it.
ReadEncoder = Callable[[str], Encoder | None]


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

    async def read(
        self, data: bytes, model: str | None, *, is_bgr: bool
    ) -> tuple[tuple[str, ...], Config]:
        """Tell which models a file steers, or whether it steers this one, and its config.

        Raises: InvalidRequest saying why it steers none.
        """
        if model is not None and model not in self._models:
            known = ", ".join(self._models) or "(none served)"
            raise InvalidRequest([FieldError("model", f"must be one of {known}")])
        names = [model] if model is not None else list(self._models)
        configs, reasons = await asyncio.to_thread(self._try, data, names, is_bgr)
        if not configs:
            said = "; ".join(f"{reason} ({name})" for name, reason in reasons.items())
            raise InvalidRequest([FieldError("body", said or "no model is served")])
        config = next(iter(configs.values()))
        return tuple(name for name, own in configs.items() if own == config), config

    async def fitting(
        self, tenant: str, create: JobCreate, able: Sequence[Model]
    ) -> tuple[Model, ...]:
        """Return those of `able` that all kept ControlNets of a job steer.

        Raises: InvalidRequest naming each that is none, or the first that leaves no model.
        """
        left, faults = tuple(able), []
        for at, use in enumerate(create.controls):
            if not is_kept(use.id):
                continue
            try:
                kept = await self.records.get(UploadKind.CONTROLNET, use.id, tenant)
            except NotFound:
                faults.append(FieldError(f"controls.{at}.id", "is the id of no ControlNet here"))
                continue
            left, before = tuple(each for each in left if each.name in kept.models), left
            if not left and before:
                names = ", ".join(each.name for each in before)
                fault = f"is for {', '.join(kept.models)}, not for {names}"
                faults.append(FieldError(f"controls.{at}.id", fault))
        if faults:
            raise InvalidRequest(faults)
        return left

    def _try(
        self, data: bytes, names: Sequence[str], is_bgr: bool
    ) -> tuple[dict[str, Config], dict[str, str]]:
        """Give the config for each model that the file steers, and why it does not steer others."""
        configs: dict[str, Config] = {}
        reasons: dict[str, str] = {}
        for name in names:
            encoder = self._encoder(name)
            if encoder is None:
                reasons[name] = "no ControlNet is served for models of this family"
                continue
            try:
                configs[name] = read_config(data, encoder, is_bgr=is_bgr)
            except BadWeights as error:
                reasons[name] = str(error)
        return configs, reasons
