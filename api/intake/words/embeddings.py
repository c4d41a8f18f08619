"""Check files of learned embeddings against the models served, and find those that jobs name."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import TypeVar

from api.intake.draft import Draft
from api.intake.loras import ReadShapes
from api.intake.schemas import PROMPTS
from api.intake.tokenizers import TokenCounter
from api.intake.weights import Spool, WeightsIntake, read_for
from catalog.prompts.embedding_file import check_fit, read_vectors, widths_of, word_of
from catalog.safetensors_header import Header
from core.errors import FieldError, InvalidRequest, WeightsRefused
from core.model import Model
from core.uploads.embedding import AppliedEmbedding, KeptEmbedding
from core.uploads.upload import UploadKind
from storage.tenants.uploads import Uploads

T = TypeVar("T")

#: What may stand for an embedding in a prompt: nothing that weighs words.
WORD = re.compile(r"[^\s()\[\]\\:,]{2,64}")
FORM = "2 to 64 characters: no spaces, brackets, commas, colons, backslashes"
_PICKLE = "; a .pt or .bin file is a pickle: load it and save its tensor by safetensors"


class EmbeddingIntake(WeightsIntake[KeptEmbedding]):
    """Reads files of learned embeddings, and the embeddings that jobs name."""

    def __init__(
        self,
        *,
        records: Uploads[KeptEmbedding],
        models: Mapping[str, Model],
        shapes: ReadShapes,
        tokens: TokenCounter,
    ) -> None:
        """Prepare; `tokens` knows which words models have already."""
        super().__init__(records, models)
        self._shapes = shapes
        self._tokens = tokens

    async def take(
        self, spool: Spool, body: AsyncIterator[bytes], model: str | None, token: str | None
    ) -> tuple[tuple[str, ...], str, int]:
        """Take a file and tell which models it fits, its word, and how many vectors it has.

        `token`: the word that its owner chooses; None: the file names its own.
        Raises: InvalidRequest saying why it fits none; ObjectsUnavailable.
        """
        check_head = partial(self._check, spool, token, is_whole=False)
        fits = await self._take(spool, body, model, check_head, partial(self._check, spool, token))
        await asyncio.to_thread(_check_numbers, spool)
        return tuple(fits), self._word(_header(spool), token), next(iter(fits.values()))

    def _check(
        self, spool: Spool, token: str | None, names: Iterable[str], *, is_whole: bool = True
    ) -> dict[str, int]:
        header = _header(spool, is_whole=is_whole)
        word = self._word(header, token)
        return read_for(names, lambda name: self._fit(header, word, self._models[name]))

    def _word(self, header: Header, token: str | None) -> str:
        word = word_of(header) if token is None else token
        if word is None:
            raise _refused("token", "is needed: the file does not name its word")
        if not WORD.fullmatch(word):
            named = f", and the file calls it {word!r}" if token is None else ""
            raise _refused("token", f"must be {FORM}{named}")
        return word

    def _fit(self, header: Header, word: str, model: Model) -> int:
        if "embeddings" not in model.family_facts.words:
            raise WeightsRefused("models of its family take no embeddings")
        if self._tokens.knows(model.name, word):
            raise WeightsRefused(f"{word!r} is a token that it has already: choose another `token`")
        return check_fit(header, widths_of(self._shapes(model.name)))

    async def add(self, draft: Draft) -> Draft:
        """Find the embeddings of a job, and keep the models that all of them fit.

        Raises: InvalidRequest naming each that is none, that no prompt speaks of, that another is
            taken for, or that fits no model left.
        """
        uses = draft.create.embeddings
        found = await asyncio.gather(
            *(self._find(UploadKind.EMBEDDING, use.id, draft.tenant) for use in uses)
        )
        unknown = [
            FieldError(f"embeddings.{at}.id", "is the id of no embedding kept here")
            for at, kept in enumerate(found)
            if kept is None
        ]
        applied = tuple(kept.used() for kept in found if kept is not None)
        wrong = unknown or [*_clashes(applied), *_unsaid(applied, draft)]
        if wrong:
            raise InvalidRequest(wrong)
        return draft.keep(draft.models, embeddings=applied)


def _clashes(applied: tuple[AppliedEmbedding, ...]) -> Iterator[FieldError]:
    for (_, one), (at, other) in combinations(enumerate(applied), 2):
        if one.is_in(other.token) or other.is_in(one.token):
            both = f"{one.token!r} and {other.token!r}"
            fault = f"has a word that another has in it ({both}): keep it by another `token`"
            yield FieldError(f"embeddings.{at}.id", fault)


def _unsaid(applied: tuple[AppliedEmbedding, ...], draft: Draft) -> Iterator[FieldError]:
    texts = [text for field in PROMPTS if (text := getattr(draft.create, field))]
    for at, each in enumerate(applied):
        if not any(each.is_in(text) for text in texts):
            fault = f"stands for {each.token!r}, which no prompt says"
            yield FieldError(f"embeddings.{at}.id", fault)


def _check_numbers(spool: Spool) -> None:
    with spool.whole() as data:
        _converting(lambda: read_vectors(data[:]))


def _header(spool: Spool, *, is_whole: bool = True) -> Header:
    return _converting(lambda: spool.header(is_whole=is_whole))


def _converting(read: Callable[[], T]) -> T:
    try:
        return read()
    except WeightsRefused as error:
        reason = str(error) + (_PICKLE if "not a safetensors file" in str(error) else "")
        raise _refused("body", reason) from error


def _refused(field: str, detail: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, detail)])
