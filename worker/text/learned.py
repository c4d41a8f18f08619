"""Let text encoders read words whose embeddings were learned (textual inversion).

Neither tokenizer nor encoder changes: a copy of the tokenizer knows the words, and their vectors
are put in place of those of its tokens while one prompt is encoded. So tenants share encoders, and
none sees another's words.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock

import torch
from torch import Tensor

from core.errors import EngineError
from core.uploads.embedding import AppliedEmbedding
from worker.diffusion.runner import LearnedVectors
from worker.diffusion.stock import Module, Pipe

#: Embeddings whose vectors are kept.
KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """A tokenizer that knows more words than its text encoder, and what they mean."""

    tokenizer: Pipe
    first: int  #: the first token that its encoder does not know
    table: Tensor | None = None  #: vectors of these, in their order. Shapes: [V, D]
    names: Mapping[str, str] = field(default_factory=dict)  #: of all tokens of each learned word

    def ids(self, text: str) -> list[int]:
        """Tokenize a text, each learned word, in any case, as all of its tokens."""
        told = _spell_out(text, self.names) if self.names else text
        tokens: list[int] = self.tokenizer(told, add_special_tokens=False).input_ids
        return tokens

    @contextmanager
    def read_by(self, encoder: Module, tokens: Tensor) -> Iterator[Tensor]:
        """Give an encoder tokens that it knows, and the vectors of the others in their place.

        What is pooled is where the prompt ends: no token that it does not know stands for that.
        """
        if self.table is None:
            yield tokens
            return
        learned, table = tokens >= self.first, self.table
        rows = (tokens[learned] - self.first).to(table.device)

        def put(module: Module, given: object, out: Tensor) -> Tensor:
            del module, given
            out = out.clone()
            out[learned.to(out.device)] = table[rows].to(out)
            return out

        hook = encoder.get_input_embeddings().register_forward_hook(put)
        try:
            yield tokens.masked_fill(learned, 0)
        finally:
            hook.remove()


def known(tokenizer: Pipe) -> Vocabulary:
    """Take a tokenizer as it is."""
    return Vocabulary(tokenizer=tokenizer, first=len(tokenizer))


def learn(tokenizer: Pipe, words: Sequence[tuple[str, Tensor]]) -> Vocabulary:
    """Add words to a copy of a tokenizer, one token a vector, named as diffusers names them.

    Raises: EngineError naming a word that it knows already.
    """
    copy, first, vectors = deepcopy(tokenizer), len(tokenizer), []
    spelled: dict[str, str] = {}
    for word, own in words:
        names = [word, *(f"{word}_{at}" for at in range(1, len(own)))]
        if copy.add_tokens(names) != len(names):
            raise EngineError(f"{word!r} is a token that the model knows already")
        vectors.append(own)
        spelled[word] = " ".join(names)
    return Vocabulary(tokenizer=copy, first=first, table=torch.cat(vectors), names=spelled)


def _spell_out(text: str, names: Mapping[str, str]) -> str:
    """Put the names of all of its tokens for each word, as the api counts them: in any case.

    Stock finds words as the tokenizer spells them, in lower case: of one with a capital letter it
    reads the first vector alone.
    """
    words = sorted(names, key=len, reverse=True)  # one may be within another
    found_by = "|".join(f"({re.escape(word)})" for word in words)

    def spell(found: re.Match[str]) -> str:
        return f" {names[words[found.groups().index(found[0])]]} "

    return re.sub(found_by, spell, text, flags=re.IGNORECASE)


class LearnedWords:
    """Vectors of embeddings that jobs have brought. Any method from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, LearnedVectors] = OrderedDict()

    def keep(self, vectors: Mapping[str, LearnedVectors]) -> None:
        """Keep what a job brings, by the ids of its embeddings."""
        with self._lock:
            for embedding_id, own in vectors.items():
                self._kept[embedding_id] = own
                self._kept.move_to_end(embedding_id)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def of(self, embeddings: Sequence[AppliedEmbedding], encoder: int) -> list[tuple[str, Tensor]]:
        """Give the words of a job and their vectors for one text encoder, by its number.

        Raises: EngineError if they have not been brought.
        """
        with self._lock:
            found = [(each, self._kept.get(each.id)) for each in embeddings]
        return [(each.token, torch.from_numpy(_present(each, own)[encoder])) for each, own in found]


def _present(embedding: AppliedEmbedding, own: LearnedVectors | None) -> LearnedVectors:
    if own is None:
        raise EngineError(f"embedding {embedding.id} is not at hand: send the job again")
    return own
