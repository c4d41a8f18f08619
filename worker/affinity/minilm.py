"""How does MiniLM read a sentence? BERT's forward pass in numpy: whoever reads needs no torch."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from core.errors import ConfigurationError
from worker.affinity.encoder import Floats, Reading

MAX_TOKENS = 128  #: what the encoder was trained on; the rest of a prompt is not read
LAYERS = (0, 3, 6)  #: whose states are features; 0 is what the words are before any layer
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
            self._weights: dict[str, Floats] = load_file(folder / "model.safetensors")
            self._tokenizer = _tokenizer(folder / "tokenizer.json")
            self._num_layers = int(config["num_hidden_layers"])
            self._num_heads = int(config["num_attention_heads"])
            self._epsilon = np.float32(config["layer_norm_eps"])
            self.read(["a"])
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise ConfigurationError(f"{folder}: not a sentence encoder: {error}") from error

    @property
    def name(self) -> str:
        return f"minilm-{self._digest[:12]}"

    @property
    def size(self) -> int:
        return int(self._weights["embeddings.word_embeddings.weight"].shape[1])

    @property
    def num_features(self) -> int:
        return self.size * len(LAYERS)

    def read(self, prompts: Sequence[str]) -> list[Reading]:
        """Read each prompt in one pass. Shapes: vector [D] of length 1, features [F]."""
        ids, mask = self._tokens(prompts)
        means = [_mean(states, mask) for states in self._states(ids, mask)]
        last = means[-1]
        vectors = last / np.linalg.norm(last, axis=1, keepdims=True)
        features = np.concatenate([means[layer] for layer in LAYERS], axis=1)
        return [Reading(vector=v, features=f) for v, f in zip(vectors, features, strict=True)]

    def embed(self, prompts: Sequence[str]) -> list[Floats]:
        """Embed each prompt. Shapes: [D] each, of length 1."""
        return [reading.vector for reading in self.read(prompts)]

    def _tokens(self, prompts: Sequence[str]) -> tuple[NDArray[np.int64], Floats]:
        """Cut prompts into tokens. Shapes: ids [B, T], mask [B, T]; 1 is a token, 0 padding."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(prompts))]
        longest = max(map(len, tokens), default=0)
        ids = np.zeros((len(tokens), longest), np.int64)
        mask = np.zeros((len(tokens), longest), np.float32)
        for i, row in enumerate(tokens):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1.0
        return ids, mask

    def _states(self, ids: NDArray[np.int64], mask: Floats) -> Iterator[Floats]:
        """Give the words, then what each layer makes of them. Shapes: [B, T] -> [B, T, D] each."""
        part = self._weights
        hidden = part["embeddings.word_embeddings.weight"][ids]
        hidden = hidden + part["embeddings.position_embeddings.weight"][: ids.shape[1]]
        hidden = hidden + part["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        far = (1 - mask)[:, None, None, :] * _FAR
        yield hidden
        for number in range(self._num_layers):
            hidden = self._layer(hidden, far, f"encoder.layer.{number}")
            yield hidden

    def _layer(self, hidden: Floats, far: Floats, name: str) -> Floats:
        mixed = self._linear(self._attend(hidden, far, name), f"{name}.attention.output.dense")
        hidden = self._norm(hidden + mixed, f"{name}.attention.output.LayerNorm")
        wide = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        narrow = self._linear(wide, f"{name}.output.dense")
        return self._norm(hidden + narrow, f"{name}.output.LayerNorm")

    def _attend(self, hidden: Floats, far: Floats, name: str) -> Floats:
        batch, length, width = hidden.shape
        heads = (batch, length, self._num_heads, width // self._num_heads)
        query, key, value = (
            self._linear(hidden, f"{name}.attention.self.{part}").reshape(heads).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(2, 3) / np.float32(heads[3] ** 0.5) + far
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ value
        return np.asarray(mixed.swapaxes(1, 2).reshape(batch, length, width))

    def _linear(self, hidden: Floats, name: str) -> Floats:
        flat = hidden.reshape(-1, hidden.shape[-1])  # one product for the whole batch
        out = flat @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out.reshape(*hidden.shape[:-1], -1)

    def _norm(self, hidden: Floats, name: str) -> Floats:
        centred = hidden - hidden.mean(-1, keepdims=True)
        scale = np.sqrt(np.square(centred).mean(-1, keepdims=True) + self._epsilon)
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return np.asarray(centred / scale * weight + bias)


def _mean(states: Floats, mask: Floats) -> Floats:
    """Average over the tokens of each sentence. Shapes: [B, T, D], [B, T] -> [B, D]."""
    return np.asarray((states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True))


def _gelu(x: Floats) -> Floats:
    return np.float32(0.5) * x * (1 + _erf(x * np.float32(0.5**0.5)))


def _erf(x: Floats) -> Floats:
    """Compute the error function to 1.5e-7 (Abramowitz & Stegun, 7.1.26)."""
    size = np.minimum(np.abs(x), np.float32(4))  # it is 1 from there on, and exp would crawl
    t = 1 / (1 + np.float32(0.3275911) * size)
    factors = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    tail = np.zeros_like(t)
    for factor in factors:
        tail = (tail + np.float32(factor)) * t
    return np.asarray(np.sign(x) * (1 - tail * np.exp(-size * size)))


def _digest(path: Path, sha256: str | None) -> str:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 not in (None, found):
        raise ValueError(f"{path.name} has SHA-256 {found}, not {sha256}")
    return found


def _tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path.name}: {error}") from error
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    return tokenizer
