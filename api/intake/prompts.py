"""Validate prompts: control characters, length, token count. No torch."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from core.errors import ConfigurationError

#: C0 without tab, line feed and carriage return; DEL; C1.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: How CLIP splits text before byte-pair encoding.
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
REMEMBERED = 256  #: texts whose tokens were counted last


class TokenCounter(Protocol):
    """Counts what a model's text encoder would read."""

    def count(self, model: str, text: str) -> int:
        """Count the tokens of a text by the longest tokenizer of a model."""


def fault_of(text: str, max_chars: int) -> str | None:
    """Say what makes `text` unfit for every model, if anything does."""
    if len(text) > max_chars:
        return f"has {len(text)} characters; at most {max_chars} are read"
    if found := CONTROL.search(text):
        return f"has a control character (U+{ord(found[0]):04X}) at position {found.start()}"
    return None


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
    bpe = models.BPE.from_file(
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
