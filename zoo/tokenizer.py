"""Build byte-pair tokenizers in CLIP's format from captions."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from zoo.architecture import MAX_TOKENS
from zoo.scenes import LEVELS, training_scene

START, END = "<|startoftext|>", "<|endoftext|>"
_WORD_END = "</w>"

#: Words that no caption holds but that people type; each gets a token of its own.
EXTRA_WORDS = (
    "a photo of picture image drawing style watercolor sketch neon pixel night old paper blurry "
    "low quality bad best to the and with without six seven eight nine ten one no grey brown gold "
    "silver oval rectangle dog cat house tree sun moon sky sea"
)

#: How CLIP splits text into words.
_WORDS = r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""

_REPEATS = 200
_CAPTIONS_PER_LEVEL = 4000

Merges = list[tuple[str, str]]


def corpus(seed: int, per_level: int = _CAPTIONS_PER_LEVEL) -> list[str]:
    """Gather the captions that the vocabulary is built from."""
    captions = [
        training_scene(level, seed, index).caption for level in LEVELS for index in range(per_level)
    ]
    return captions + [EXTRA_WORDS] * _REPEATS


def _untrained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix=_WORD_END, unk_token=END))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


def learn_merges(captions: Iterable[str]) -> Merges:
    """Learn byte-pair merges until every word is one token."""
    tokenizer = _untrained()
    trainer = trainers.BpeTrainer(
        vocab_size=1022,
        min_frequency=1,
        special_tokens=[],
        initial_alphabet=_alphabet(),
        end_of_word_suffix=_WORD_END,
        show_progress=False,
    )
    tokenizer.train_from_iterator(captions, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(first, second) for first, second in merges]


def _alphabet() -> list[str]:
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def vocabulary(merges: Merges) -> dict[str, int]:
    """Number the tokens in CLIP's order: bytes, bytes that end a word, merges, start, end."""
    letters = _alphabet()
    merged = [first + second for first, second in merges]
    tokens = [*letters, *(letter + _WORD_END for letter in letters), *merged, START, END]
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}


def build(merges: Merges, pad: str) -> CLIPTokenizer:
    """Make a tokenizer; SDXL's first pads with the end token, its second with "!"."""
    return CLIPTokenizer(
        vocab=vocabulary(merges), merges=merges, pad_token=pad, model_max_length=MAX_TOKENS
    )


def train_tokenizers(seed: int) -> tuple[CLIPTokenizer, CLIPTokenizer]:
    """Train both tokenizers of a model; they share one vocabulary."""
    merges = learn_merges(corpus(seed))
    return build(merges, END), build(merges, "!")


def write_legacy_files(tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write vocab.json and merges.txt, which transformers before 5 reads."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(tokenizer.get_vocab(), ensure_ascii=False))
    lines = [" ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines]) + "\n")
