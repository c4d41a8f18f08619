"""Encode prompts with weights, chunk by chunk, as front ends beside diffusers do.

A chunk is as many tokens as an encoder reads, begin and end among them, and is encoded alone. Each
hidden state is multiplied by the weight of its token, then all of the chunk by what restores its
mean. Chunks lie one behind another; what has fewer of them is filled up with those of no words.
What is pooled is the first chunk's, without weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from catalog.prompts.syntax import Sections
from worker.text.chunks import Chunk, chunks_of
from worker.text.clip import ClipReader
from worker.text.learned import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEncoder:
    """A text encoder and the words that it is given."""

    vocabulary: Vocabulary
    reader: ClipReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What a model is told of a prompt."""

    text: Tensor  #: [1, T, D]
    pooled: Tensor  #: [1, P]; of encoders that pool nothing, P is 0

    def silent(self) -> "Encoding":
        """Say nothing at all."""
        return Encoding(text=torch.zeros_like(self.text), pooled=torch.zeros_like(self.pooled))


def read_both(
    encoders: Sequence[TextEncoder],
    prompts: Sequence[str],
    negatives: Sequence[str] | None,
    skip: int | None,
    parse: Callable[[str], Sections],
) -> tuple[Encoding, Encoding]:
    """Encode a prompt and a negative one to one length: a text for each encoder, and maybe more.

    `negatives`: None says nothing at all. `skip`: layers that the prompt is read without.
    Raises: PromptRefused.
    """
    cut = [_cut(encoders, texts, parse) for texts in (prompts, negatives) if texts is not None]
    longest = max(len(chunks) for each in cut for chunks in each)
    prompt = _encode(encoders, cut[0], longest, skip)
    if negatives is None:
        return prompt, prompt.silent()
    return prompt, _encode(encoders, cut[1], longest, None)


def weigh(states: Tensor, weights: Sequence[float]) -> Tensor:
    """Multiply the states of tokens by their weights, and all by what restores their mean.

    Shapes: [1, T, D] -> [1, T, D]
    """
    exact = states.float()
    weighed = exact * torch.tensor(weights, device=states.device)[None, :, None]
    return (weighed * (exact.mean() / weighed.mean())).to(states.dtype)


def _cut(
    encoders: Sequence[TextEncoder], texts: Sequence[str], parse: Callable[[str], Sections]
) -> list[list[Chunk]]:
    both = zip(encoders, texts, strict=False)
    return [chunks_of(parse(text), each.vocabulary) for each, text in both]


def _encode(
    encoders: Sequence[TextEncoder],
    chunks: Sequence[Sequence[Chunk]],
    longest: int,
    skip: int | None,
) -> Encoding:
    read = [_read(*each, longest, skip) for each in zip(encoders, chunks, strict=True)]
    return Encoding(
        text=torch.cat([text for text, _ in read], dim=-1),
        pooled=torch.cat([pooled for _, pooled in read], dim=-1),
    )


def _read(
    encoder: TextEncoder, chunks: Sequence[Chunk], longest: int, skip: int | None
) -> tuple[Tensor, Tensor]:
    empty = chunks_of((), encoder.vocabulary) * (longest - len(chunks))
    read = [_read_chunk(encoder, chunk, skip) for chunk in (*chunks, *empty)]
    states = torch.cat([states for states, _ in read], dim=1)
    pooled = read[0][1]
    return states, states[:, 0, :0] if pooled is None else pooled


def _read_chunk(
    encoder: TextEncoder, chunk: Chunk, skip: int | None
) -> tuple[Tensor, Tensor | None]:
    states, pooled = encoder.reader.read(torch.tensor([chunk.tokens]), skip, encoder.vocabulary)
    return weigh(states, chunk.weights) if chunk.is_weighed else states, pooled
