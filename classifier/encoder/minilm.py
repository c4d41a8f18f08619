"""MiniLM sentence encoder in numpy, so the scheduler needs no torch."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from classifier.encoder.bert import read_layer, read_norm
from classifier.encoder.encoder import Floats
from core.errors import ConfigurationError

MAX_TOKENS = 128  #: what the encoder was trained on; the rest of a prompt is not read
LAYERS = (0, 3)  #: whose states are features; 0 is what the words are before any layer
AT_ONCE = 8  #: sentences that pass together: what they need stays in the cache of a core
_FAR = np.float32(-1e9)  #: what attention sees of padding


class MiniLM:
    """A BERT with mean pooling (Reimers & Gurevych 2019), such as all-MiniLM-L6-v2.

    The tokenizer and the weights are read from a folder in the layout of transformers.
    """

    def __init__(self, folder: Path, *, sha256: str | None = None) -> None:
        """Load it.

        Raises:
            ConfigurationError: the folder holds no such model, or not these weights.
        """
        try:
            config = json.loads((folder / "config.json").read_text())
            self._digest = _digest(folder / "model.safetensors", sha256)
            self._tokenizer = _tokenizer(folder / "tokenizer.json")
            weights: dict[str, Floats] = load_file(folder / "model.safetensors")
            self._words = weights["embeddings.word_embeddings.weight"]
            self._places = weights["embeddings.position_embeddings.weight"]
            self._places = self._places + weights["embeddings.token_type_embeddings.weight"][0]
            epsilon, heads = np.float32(config["layer_norm_eps"]), config["num_attention_heads"]
            self._norm = read_norm(weights, "embeddings.LayerNorm", epsilon)
            names = (f"encoder.layer.{number}" for number in range(config["num_hidden_layers"]))
            self._layers = [read_layer(weights, name, int(heads), epsilon) for name in names]
            self.embed(["a"])
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise ConfigurationError(f"{folder}: not a sentence encoder: {error}") from error

    @property
    def name(self) -> str:
        return f"minilm-{self._digest[:12]}"

    @property
    def size(self) -> int:
        return int(self._words.shape[1])

    def embed(self, prompts: Sequence[str]) -> list[Floats]:
        """Embed each prompt. Shapes: [D] each, of length 1."""
        means = self._means(prompts, (len(self._layers),))
        return list(means / np.linalg.norm(means, axis=1, keepdims=True))

    def features(self, prompts: Sequence[str]) -> Floats:
        """Average the states of some layers over the tokens of each prompt. Shapes: [P, F].

        Layers after the last of them are not run.
        """
        return self._means(prompts, LAYERS)

    def _means(self, prompts: Sequence[str], layers: Sequence[int]) -> Floats:
        """Average states over tokens. Shapes: [P, D of each layer, side by side]."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(prompts))]
        means = np.empty((len(tokens), len(layers) * self.size), np.float32)
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))  # alike in length
        for first in range(0, len(order), AT_ONCE):
            some = order[first : first + AT_ONCE]
            ids, mask = _padded([tokens[i] for i in some])
            states = islice(self._states(ids, mask), layers[-1] + 1)
            found = [_mean(each, mask) for i, each in enumerate(states) if i in layers]
            means[some] = np.concatenate(found, axis=1)
        return means

    def _states(self, ids: NDArray[np.int64], mask: Floats) -> Iterator[Floats]:
        """Give the words, then what each layer makes of them. Shapes: [B, T] -> [B, T, D] each."""
        hidden = self._norm(self._words[ids] + self._places[: ids.shape[1]])
        far = (1 - mask)[:, None, None, :] * _FAR
        yield hidden
        for layer in self._layers:
            hidden = layer(hidden, far)
            yield hidden


def _padded(tokens: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Floats]:
    """Put sentences side by side. Shapes: ids [B, T], mask [B, T]; 1 is a token, 0 padding."""
    longest = max(map(len, tokens))
    ids = np.zeros((len(tokens), longest), np.int64)
    mask = np.zeros((len(tokens), longest), np.float32)
    for i, row in enumerate(tokens):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1.0
    return ids, mask


def _mean(states: Floats, mask: Floats) -> Floats:
    """Average over the tokens of each sentence. Shapes: [B, T, D], [B, T] -> [B, D]."""
    return np.asarray((states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True))


def _digest(path: Path, sha256: str | None) -> str:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 not in (None, found):
        raise ValueError(f"{path.name} has SHA-256 {found}, not {sha256}")
    return found


def _tokenizer(path: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_buffer(path.read_bytes())
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    return tokenizer
