"""Check ControlNet files against the models served, and find the kept ones that jobs name."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from api.intake.draft import Draft
from api.intake.rules import faults_of_use
from api.intake.weights import Spool, WeightsIntake, read_for
from catalog.controlnet.encoder import Config, ControlNetEncoder, Traits
from catalog.controlnet.manifest import find_config, read_tensors
from catalog.safetensors_header import HEAD_BYTES
from core.errors import BadWeights, FieldError, InvalidRequest
from core.model import Model
from core.uploads.controlnet import KeptControlNet, is_kept
from core.uploads.upload import UploadKind
from storage.tenants.uploads import Uploads

#: Reads what ControlNets copy of a model, by its name; None if none can steer it.
ReadEncoder = Callable[[str], ControlNetEncoder | None]


class ControlNetIntake(WeightsIntake[KeptControlNet]):
    """Reads ControlNet files, and the kept ControlNets that jobs name."""

    def __init__(
        self,
        *,
        records: Uploads[KeptControlNet],
        models: Mapping[str, Model],
        encoder: ReadEncoder,
    ) -> None:
        """Prepare; encoders are read for each file: another model may have a name by then."""
        super().__init__(records, models)
        self._encoder = encoder

    async def take(
        self, spool: Spool, body: AsyncIterator[bytes], model: str | None, traits: Traits
    ) -> tuple[tuple[str, ...], Config]:
        """Take a file and tell which models it steers, or whether it steers this one; its config.

        Raises: InvalidRequest saying why it steers none; ObjectsUnavailable.
        """
        check = partial(self._check, spool, traits)
        configs = await self._take(
            spool, body, model, partial(check, is_whole=False), partial(check, is_whole=True)
        )
        config = next(iter(configs.values()))
        return tuple(name for name, own in configs.items() if own == config), config

    async def add(self, draft: Draft) -> Draft:
        """Keep the models that all kept ControlNets of a job steer.

        Raises: InvalidRequest naming each that is none, or the first that leaves no model.
        """
        left, wrong, adapters = draft.models, list[FieldError](), set[str]()
        for at, use in enumerate(draft.create.controls):
            if not is_kept(use.id):
                continue
            kept = await self._find(UploadKind.CONTROLNET, use.id, draft.tenant)
            if kept is None:
                wrong.append(FieldError(f"controls.{at}.id", "is the id of no ControlNet here"))
                continue
            wrong += faults_of_use(at, use, kept)
            adapters |= {use.id} if kept.is_adapter else set()
            left, before = tuple(each for each in left if each.name in kept.models), left
            if not left and before:
                names = ", ".join(each.name for each in before)
                fault = f"is for {', '.join(kept.models)}, not for {names}"
                wrong.append(FieldError(f"controls.{at}.id", fault))
        if wrong:
            raise InvalidRequest(wrong)
        return replace(draft.keep(left), adapters=frozenset(adapters))

    def _check(
        self, spool: Spool, traits: Traits, names: Iterable[str], *, is_whole: bool
    ) -> dict[str, Config]:
        """Give the config for each model that the file steers.

        Raises: InvalidRequest saying why it steers none.
        """
        try:
            tensors = read_tensors(spool.head(HEAD_BYTES), spool.size_bytes, is_whole=is_whole)
        except BadWeights as error:
            raise InvalidRequest([FieldError("body", str(error))]) from error
        return read_for(names, lambda name: find_config(tensors, self._encoder_of(name), traits))

    def _encoder_of(self, model: str) -> ControlNetEncoder:
        encoder = self._encoder(model)
        if encoder is None:
            raise BadWeights("ControlNets of its family are served from folders alone")
        return encoder
