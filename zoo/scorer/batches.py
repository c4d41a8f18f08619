"""Training batches of the scorer: scenes, one-word variants, judged pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from transformers import CLIPTokenizer

from zoo.architecture import MAX_TOKENS
from zoo.latents import pixels
from zoo.scenes import Scene, draw, training_scene
from zoo.scorer.changes import change
from zoo.scorer.inventory import Inventory, take
from zoo.scorer.judged import Judged
from zoo.scorer.truth import share

_INDICES = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Scenes and their twins, which differ in one word, N each; and M judged pictures."""

    #: First N scenes, then their twins, then what the judged pictures should show, [2N + M, T].
    ids: Tensor
    #: In the same order, [2N + M, 3, 64, 64].
    pixels: Tensor
    #: What the first 2N hold.
    inventory: Inventory
    #: Whether another's picture may show a caption too, [2N, 2N].
    is_doubtful: Tensor
    #: Caption and picture of each pair whose share of right parts is known, [P, 2].
    pairs: Tensor
    #: That share, [P].
    shares: Tensor


def tokenize(tokenizer: CLIPTokenizer, captions: Sequence[str]) -> Tensor:
    """Cut captions into tokens, padded to the longest.

    Shapes: B -> [B, T].
    """
    cut = tokenizer(
        list(captions), padding=True, max_length=MAX_TOKENS, truncation=True, return_tensors="pt"
    )
    ids: Tensor = cut.input_ids
    return ids


def draw_scenes(
    mix: Mapping[int, float], n: int, seed: int, generator: torch.Generator
) -> list[Scene]:
    """Choose n training scenes."""
    weights = torch.tensor(list(mix.values()), dtype=torch.float64)
    levels = torch.multinomial(weights, n, replacement=True, generator=generator)
    indices = torch.randint(_INDICES, (n,), generator=generator)
    drawn = zip(levels.tolist(), indices.tolist(), strict=True)
    return [training_scene(list(mix)[level], seed, index) for level, index in drawn]


def batch(
    scenes: Sequence[Scene],
    judged: Sequence[tuple[Judged, int]],
    tokenizer: CLIPTokenizer,
    rng: Random,
) -> Batch:
    """Put scenes, twins of them and judged pictures together; `judged` names pool and number."""
    twins = [change(scene, rng)[1] for scene in scenes]
    both = [*scenes, *twins]
    asked = [pool.scene(at) for pool, at in judged]
    pictures = [draw(scene) for scene in both] + [pool.pictures[at].numpy() for pool, at in judged]
    pairs, shares = _known(scenes, twins)
    first = len(both)
    pairs += [(first + at, first + at) for at in range(len(judged))]
    shares += [float(pool.shares[at]) for pool, at in judged]
    return Batch(
        ids=tokenize(tokenizer, [scene.caption for scene in [*both, *asked]]),
        pixels=pixels(pictures),
        inventory=take(both),
        is_doubtful=_doubtful(both),
        pairs=torch.tensor(pairs),
        shares=torch.tensor(shares),
    )


def _known(
    scenes: Sequence[Scene], twins: Sequence[Scene]
) -> tuple[list[tuple[int, int]], list[float]]:
    """Pair captions with pictures: own, of the twin, of the next scene."""
    n = len(scenes)
    both = [*scenes, *twins]
    pairs = [(at, at) for at in range(2 * n)]
    pairs += [(at, at + n) for at in range(n)] + [(at + n, at) for at in range(n)]
    pairs += [(at, (at + 1) % n) for at in range(n)]
    return pairs, [1.0 if text == seen else share(both[seen], both[text]) for text, seen in pairs]


def _doubtful(scenes: Sequence[Scene]) -> Tensor:
    """Mark pairs of the same nouns, which may well be right; twins never are, and own ones always.

    Shapes: [2N, 2N].
    """
    nouns = [
        frozenset((each.noun.colour, each.noun.shape) for each in scene.figures) for scene in scenes
    ]
    numbers = {each: at for at, each in enumerate(dict.fromkeys(nouns))}
    number = torch.tensor([numbers[each] for each in nouns])
    same = number[:, None] == number[None, :]
    at = torch.arange(len(scenes))
    same[at, at] = False
    same[at, at.roll(len(scenes) // 2)] = False
    return same
