"""A BERT layer in numpy, computed in place where possible."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from classifier.encoder.encoder import Floats

_ROWS = 32  #: tokens whose activations pass together: what they need stays in the cache of a core


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """Weights as they are multiplied: from the right."""

    weight: Floats  #: [in, out]
    bias: Floats  #: [out]

    def __call__(self, flat: Floats) -> Floats:
        out = flat @ self.weight
        out += self.bias
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Norm:
    """Layer normalisation."""

    weight: Floats  #: [D]
    bias: Floats  #: [D]
    epsilon: np.float32

    def __call__(self, flat: Floats) -> Floats:
        """Normalise each row where it is."""
        flat -= flat.mean(-1, keepdims=True)
        flat /= np.sqrt(np.square(flat).mean(-1, keepdims=True) + self.epsilon)
        flat *= self.weight
        flat += self.bias
        return flat


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """Self-attention, then two products with GELU between."""

    ask: Linear  #: query, key and value, side by side
    mix: Linear  #: what the heads found
    mixed: Norm
    widen: Linear  #: to four times the width
    narrow: Linear  #: and back
    done: Norm
    num_heads: int

    def __call__(self, hidden: Floats, far: Floats) -> Floats:
        """Shapes: [B, T, D], [B, 1, 1, T] -> [B, T, D]."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        mixed = self.mix(self._attend(flat, far))
        mixed += flat
        self.mixed(mixed)
        out = self.narrow(_gelu(self.widen(mixed)))
        out += mixed
        return self.done(out).reshape(hidden.shape)

    def _attend(self, flat: Floats, far: Floats) -> Floats:
        batch, length = far.shape[0], far.shape[-1]
        apart = self.ask(flat).reshape(batch, length, 3, self.num_heads, -1)
        query, key, value = apart.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(2, 3)
        scores += far
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return np.asarray((scores @ value).swapaxes(1, 2).reshape(flat.shape))


def _gelu(x: Floats) -> Floats:
    """Apply GELU to each row where it is, some rows at a time."""
    for first in range(0, len(x), _ROWS):
        rows = x[first : first + _ROWS]
        size = np.abs(rows)
        tail = _tail(size)
        tail *= size
        np.maximum(rows, 0, out=rows)
        rows -= tail
    return x


def _tail(size: Floats) -> Floats:
    """Compute (1 - erf(x / sqrt 2)) / 2 of x >= 0 to 1e-7 (Abramowitz & Stegun, 7.1.26)."""
    z = size * np.float32(0.5**0.5)
    np.minimum(z, np.float32(4), out=z)  # it is 0 from there on, and exp would crawl
    t = z * np.float32(0.3275911)
    t += 1
    np.reciprocal(t, out=t)
    tail = t * np.float32(0.5 * 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += np.float32(0.5 * factor)
        tail *= t
    np.square(z, out=z)
    np.negative(z, out=z)
    tail *= np.exp(z, out=z)
    return tail


def read_layer(
    weights: Mapping[str, Floats], name: str, num_heads: int, epsilon: np.float32
) -> Layer:
    """Take a layer out of the weights of a model."""
    query, key, value = (
        read_linear(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
    )
    scale = np.float32((query.weight.shape[1] / num_heads) ** -0.5)
    return Layer(
        ask=Linear(
            weight=np.concatenate([query.weight * scale, key.weight, value.weight], axis=1),
            bias=np.concatenate([query.bias * scale, key.bias, value.bias]),
        ),
        mix=read_linear(weights, f"{name}.attention.output.dense"),
        mixed=read_norm(weights, f"{name}.attention.output.LayerNorm", epsilon),
        widen=read_linear(weights, f"{name}.intermediate.dense"),
        narrow=read_linear(weights, f"{name}.output.dense"),
        done=read_norm(weights, f"{name}.output.LayerNorm", epsilon),
        num_heads=num_heads,
    )


def read_linear(weights: Mapping[str, Floats], name: str) -> Linear:
    """Take a linear layer out of the weights of a model."""
    weight = np.ascontiguousarray(weights[f"{name}.weight"].T)
    return Linear(weight=weight, bias=weights[f"{name}.bias"])


def read_norm(weights: Mapping[str, Floats], name: str, epsilon: np.float32) -> Norm:
    """Take a normalisation out of the weights of a model."""
    return Norm(weight=weights[f"{name}.weight"], bias=weights[f"{name}.bias"], epsilon=epsilon)
