"""Cut a prompt into chunks of as many tokens as a text encoder reads. No torch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from catalog.prompts.syntax import Sections, WeightedPart
from worker.diffusion.stock import Pipe
from worker.text.learned import Vocabulary


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens that are encoded together: begin, words, end, padding."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]  #: of each; 1 for those that are no words

    @property
    def is_weighed(self) -> bool:
        """Whether any of it weighs more or less than the rest."""
        return any(weight != 1 for weight in self.weights)


def chunks_of(sections: Sections, vocabulary: Vocabulary) -> list[Chunk]:
    """Cut a prompt: each section begins a chunk, as does whatever is too much for one.

    A section without tokens makes none; a prompt without any is one chunk.
    """
    tokenizer = vocabulary.tokenizer
    size = tokenizer.model_max_length - 2
    cut = [
        _chunk(words[at : at + size], size, tokenizer)
        for words in (list(_tokens(section, vocabulary)) for section in sections)
        for at in range(0, len(words), size)
    ]
    return cut or [_chunk([], size, tokenizer)]


def _tokens(section: Iterable[WeightedPart], vocabulary: Vocabulary) -> Iterator[tuple[int, float]]:
    for part in section:
        for token in vocabulary.ids(part.text):
            yield token, part.weight


def _chunk(words: Sequence[tuple[int, float]], size: int, tokenizer: Pipe) -> Chunk:
    missing = size - len(words)
    tokens = [token for token, _ in words]
    return Chunk(
        tokens=(
            tokenizer.bos_token_id,
            *tokens,
            tokenizer.eos_token_id,
            *[tokenizer.pad_token_id] * missing,
        ),
        weights=(1.0, *(weight for _, weight in words), *[1.0] * (1 + missing)),
    )
