"""Models that come and go while the api runs: followed, added and removed by operators."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from api.intake.tokenizers import check_tokenizers, read_tokenizers
from catalog.adding import remove
from catalog.catalogue import Catalogue
from catalog.converting import ways_to_add
from catalog.models import ReadModel
from core.errors import ConfigurationError, FieldError, InvalidRequest, ModelRefused
from core.log import get_logger
from core.model import Model

T = TypeVar("T")

log = get_logger(__name__)


class FollowingTokens:
    """Counts the tokens of whatever models are served at the moment."""

    def __init__(self, folder: Path, models: Mapping[str, Model]) -> None:
        """Read the tokenizers of these models. Raises: ConfigurationError as `read_tokenizers`."""
        self._folder = folder
        self._now = read_tokenizers(folder, models)

    def count(self, model: str, text: str) -> int:
        """Count the tokens of a text by the longest tokenizer of a model."""
        return self._now.count(model, text)

    def count_t5(self, model: str, text: str) -> int | None:
        """Count the tokens of a text by the T5 tokenizer of a model; None: it has none."""
        return self._now.count_t5(model, text)

    def layers(self, model: str) -> int | None:
        """Count the layers of the shortest CLIP encoder of a model; None: it says of none."""
        return self._now.layers(model)

    def knows(self, model: str, word: str) -> bool:
        """Tell whether a word is a token of a model by itself."""
        return self._now.knows(model, word)

    def follow(self, models: Mapping[str, Model]) -> None:
        """Count for these models from now on. Raises: ConfigurationError; nothing changes then."""
        self._now = read_tokenizers(self._folder, models)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModel:
    """What an operator wants served."""

    path: Path  #: a folder or a single file, on the disk of this process
    name: str | None = None  #: what to call it; None: as its folder
    base: Path | None = None  #: of a single file: a stock folder for what it does not have
    is_dry: bool = False  #: only say what it would be


@dataclass(slots=True, kw_only=True)
class ServedModels:
    """The models of a service, and what follows them. One per process."""

    catalogue: Catalogue
    tokens: FollowingTokens
    adding: asyncio.Lock = field(default_factory=asyncio.Lock)  #: one model at a time
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  #: one change at a time

    async def follow(self) -> None:
        """Take over what has changed in the models folder since the last look."""
        async with self.changing:
            await self._follow()

    async def add(self, new: NewModel) -> ReadModel:
        """Have a model served from now on.

        Raises:
            InvalidRequest: it cannot be; says why, and what would help.
        """
        folder, (plan, do) = self.catalogue.folder, ways_to_add(new.path, new.base)
        planned = await _refusing("path", partial(plan, new.path, folder, new.name))
        if new.path.is_dir():  # those of a file are ours
            await _refusing("path", partial(check_tokenizers, new.path, planned.model))
        if new.is_dry:
            return planned
        async with self.adding:  # a conversion takes minutes, and nobody waits to see the others
            found = await _refusing("path", partial(do, new.path, folder, new.name))
        await self.follow()
        return found

    async def remove(self, name: str) -> None:
        """Serve a model no more.

        Raises:
            NotFound: there is none of this name.
            InvalidRequest: its files are not ours to delete, or cannot be.
        """
        async with self.changing:
            await _refusing("name", partial(remove, self.catalogue.folder, name))
            await self._follow()

    async def _follow(self) -> None:
        found = await asyncio.to_thread(self.catalogue.look)
        if found is None:
            return
        try:  # prompts of a new model are counted before anybody may name it
            await asyncio.to_thread(self.tokens.follow, found.models)
        except (ConfigurationError, LookupError, TypeError, ValueError, OSError) as error:
            log.warning("tokenizer_not_read", reason=repr(error))
        self.catalogue.take(found)


async def _refusing(what: str, do: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(do)
    except (ModelRefused, ConfigurationError) as error:
        raise InvalidRequest([FieldError(what, str(error))]) from error
