"""Count tokens and layers of the text encoders of the models served. No torch."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers import models as algorithms

from catalog.config_file import read_json
from core.errors import ConfigurationError
from core.model import Model

#: How CLIP splits text before byte-pair encoding.
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
#: Folders of text encoders; T5's says of layers by another name.
ENCODERS = ("text_encoder", "text_encoder_2")
#: Bytes of a file of a tokenizer; T5's have a tenth.
MAX_BYTES = 32 * 2**20
#: Texts whose tokens were counted last: six prompts of as many parts as are read.
REMEMBERED = 2048


class TokenCounter(Protocol):
    """Counts what a model's text encoder would read."""

    def count(self, model: str, text: str) -> int:
        """Count the tokens of a text by the longest CLIP tokenizer of a model."""

    def count_t5(self, model: str, text: str) -> int | None:
        """Count the tokens of a text by the T5 tokenizer of a model; None: it has none."""

    def layers(self, model: str) -> int | None:
        """Count the layers of the shortest CLIP encoder of a model; None: it says of none."""

    def knows(self, model: str, word: str) -> bool:
        """Tell whether a word is a token of a model by itself."""


class ModelTokenizers:
    """The tokenizers of the models served, read from their folders."""

    def __init__(
        self,
        folders: Mapping[str, Sequence[Path]],
        layers: Mapping[str, int] | None = None,
        t5: Mapping[str, Path] | None = None,
    ) -> None:
        """Read the folders of each model's tokenizers; those that are not there count nothing.

        `layers`: of the shortest CLIP encoder of each, where that is known. `t5`: the folder of
        T5's tokenizer, where there is one.
        """
        self._layers = layers or {}
        known: dict[str, Tokenizer] = {}  # models of one family read alike
        self._tokenizers = {
            name: [known.setdefault(each.to_str(), each) for each in load_tokenizers(found)]
            for name, found in folders.items()
        }
        self._t5 = {
            name: known.setdefault(each.to_str(), each)
            for name, found in (t5 or {}).items()
            for each in load_tokenizers([found])
        }
        # A request asks for every model in turn.
        self._counted = lru_cache(maxsize=REMEMBERED)(_count)

    def count(self, model: str, text: str) -> int:
        """Count tokens without begin and end; the longest where a model has two encoders."""
        counts = (self._counted(each, text) for each in self._tokenizers.get(model, ()))
        return max(counts, default=0)

    def count_t5(self, model: str, text: str) -> int | None:
        """Count the tokens of a text by the T5 tokenizer of a model; None: it has none."""
        tokenizer = self._t5.get(model)
        return None if tokenizer is None else self._counted(tokenizer, text)

    def layers(self, model: str) -> int | None:
        """Count the layers of the shortest CLIP encoder of a model; None: it says of none."""
        return self._layers.get(model)

    def knows(self, model: str, word: str) -> bool:
        """Tell whether a word is a token of a model by itself."""
        tokenizers = self._tokenizers.get(model, ())
        return any(each.token_to_id(word) is not None for each in tokenizers)


def read_tokenizers(folder: Path, models: Mapping[str, Model]) -> ModelTokenizers:
    """Read the tokenizers of the models served, each in its folder below this one.

    Raises:
        ConfigurationError: a tokenizer folder holds nothing we can read; the message names it.
    """
    return ModelTokenizers(
        {
            name: [folder / name / each for each in model.family_facts.tokenizers]
            for name, model in models.items()
        },
        {name: layers for name in models if (layers := _layers(folder / name))},
        {
            name: folder / name / t5.tokenizer
            for name, model in models.items()
            if (t5 := model.family_facts.t5) is not None
            and (folder / name / t5.tokenizer / "tokenizer.json").is_file()
        },
    )


def check_tokenizers(folder: Path, model: Model) -> None:
    """Make sure that prompts of a model could be counted, before its folder is among those served.

    Raises:
        ConfigurationError: a tokenizer folder holds nothing we can read; the message names it.
    """
    load_tokenizers(folder / each for each in model.family_facts.tokenizers)


def load_tokenizers(folders: Iterable[Path]) -> tuple[Tokenizer, ...]:
    """Read the tokenizers of a stock pipeline folder; equal ones are one.

    Raises:
        ConfigurationError: a tokenizer folder holds nothing we can read; the message names it.
    """
    found = [_load(path) for path in folders if path.is_dir()]
    return tuple({tokenizer.to_str(): tokenizer for tokenizer in found}.values())


def _layers(folder: Path) -> int | None:
    """Read how many layers the shortest CLIP encoder of a pipeline folder has."""
    configs = [folder / each / "config.json" for each in ENCODERS]
    read = [read_json(path) for path in configs if path.is_file()]
    counts = [each.get("num_hidden_layers") for each in read if isinstance(each, dict)]
    return min((each for each in counts if isinstance(each, int)), default=None)


def _load(folder: Path) -> Tokenizer:
    try:
        _check_files(folder)
        whole = folder / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(whole)) if whole.is_file() else _clip(folder)
    except Exception as error:  # the library raises bare Exception
        raise ConfigurationError(f"{folder}: no tokenizer that can be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _check_files(folder: Path) -> None:
    """Let the libraries, workers' too, read no pipe, device or file without end.

    Raises: ValueError.
    """
    for file in folder.iterdir():
        if not file.is_dir() and not (file.is_file() and file.stat().st_size <= MAX_BYTES):
            raise ValueError(f"{file.name} is no plain file of at most {MAX_BYTES} bytes")


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
