"""Count the tokens of prompts as the text encoders of the models served do. No torch."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers import models as algorithms

from core.errors import ConfigurationError
from core.model import Model

#: How CLIP splits text before byte-pair encoding.
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
REMEMBERED = 256  #: texts whose tokens were counted last


class TokenCounter(Protocol):
    """Counts what a model's text encoder would read."""

    def count(self, model: str, text: str) -> int:
        """Count the tokens of a text by the longest tokenizer of a model."""


class ModelTokenizers:
    """The tokenizers of the models served, read from their folders."""

    def __init__(self, folders: Mapping[str, Sequence[Path]]) -> None:
        """Read the folders of each model's tokenizers; those that are not there count nothing."""
        known: dict[str, Tokenizer] = {}  # models of one family read alike
        self._tokenizers = {
            name: [known.setdefault(each.to_str(), each) for each in load_tokenizers(found)]
            for name, found in folders.items()
        }
        # A request asks for every model in turn.
        self._counted = lru_cache(maxsize=REMEMBERED)(_count)

    def count(self, model: str, text: str) -> int:
        """Count tokens without begin and end; the longest where a model has two encoders."""
        counts = (self._counted(each, text) for each in self._tokenizers.get(model, ()))
        return max(counts, default=0)


def read_tokenizers(folder: Path, models: Mapping[str, Model]) -> ModelTokenizers:
    """Read the tokenizers of the models served, each in its folder below this one.

    Raises:
        ConfigurationError: a tokenizer folder holds nothing we can read; the message names it.
    """
    return ModelTokenizers(
        {
            name: [folder / name / each for each in model.family_facts.tokenizers]
            for name, model in models.items()
        }
    )


def load_tokenizers(folders: Iterable[Path]) -> tuple[Tokenizer, ...]:
    """Read the tokenizers of a stock pipeline folder; equal ones are one.

    Raises:
        ConfigurationError: a tokenizer folder holds nothing we can read; the message names it.
    """
    found = [_load(path) for path in folders if path.is_dir()]
    return tuple({tokenizer.to_str(): tokenizer for tokenizer in found}.values())


def _load(folder: Path) -> Tokenizer:
    try:
        whole = folder / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(whole)) if whole.is_file() else _clip(folder)
    except Exception as error:  # the library raises bare Exception
        raise ConfigurationError(f"{folder}: no tokenizer that can be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _clip(folder: Path) -> Tokenizer:
    """Build CLIP's tokenizer from its vocabulary and merges, as older model folders ship it."""
    bpe = algorithms.BPE.from_file(
        str(folder / "vocab.json"),
        str(folder / "merges.txt"),
        end_of_word_suffix="</w>",
        unk_token="<|endoftext|>",
    )
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


def _count(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)
