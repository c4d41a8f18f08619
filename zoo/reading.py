"""Pretrain text encoders to read captions, before the denoiser is trained.

From the tokens of a caption, linear maps must tell what it says: each noun its own words, each of
the first tokens after the end token one figure, the pooled vector the whole. A denoiser then finds
what belongs together in one place, instead of learning to read through the error of its pictures.
What is read must stand out from noise and be said in small numbers, so that no direction drowns the
others: SDXL reads a layer that nothing normalises (Alemi et al. 2017, equation 17).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from transformers import CLIPTokenizer

from zoo.architecture import MAX_TOKENS
from zoo.labels import IGNORED, NOUN_FIELDS, POOLED_FIELDS, SLOT_FIELDS, SLOTS, Labels, label
from zoo.recipe import LATE_MIX
from zoo.scenes import LEVELS, Scene, training_scene
from zoo.scenes.words import Shape
from zoo.text import SdReader, SdxlReader, end_of
from zoo.training import Recipe, Training

#: Training scenes have indices below this, at every level.
_SCENES = 10_000_000

_BESIDE_SLOTS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRecipe(Recipe):
    """The settings of one run: minutes suffice."""

    steps: int = 1000
    decay_steps: int = 200
    batch: int = 96
    rate: float = 1.5e-3
    betas: tuple[float, float] = (0.9, 0.98)
    average: float = 0.98
    #: Standard deviation of the noise on what the heads are told, in the end.
    noise: float = 1.0
    #: The first steps, over which it rises.
    quiet_steps: int = 400
    #: Weight of the mean square of the context.
    bottleneck: float = 0.02

    def noise_at(self, step: int) -> float:
        """Give the noise."""
        return self.noise * min(1.0, step / self.quiet_steps)


def tokenize(tokenizer: CLIPTokenizer, scenes: Sequence[Scene]) -> Tensor:
    """Cut the captions of some scenes into tokens.

    Shapes: [B, T].
    """
    captions = [scene.caption for scene in scenes]
    encoded = tokenizer(
        captions, padding="max_length", max_length=MAX_TOKENS, truncation=True, return_tensors="pt"
    )
    ids: Tensor = encoded.input_ids
    return ids


def noun_ids(tokenizer: CLIPTokenizer) -> Tensor:
    """List the tokens that name a shape, one or several of it."""
    words = [word for shape in Shape for word in (str(shape), shape.plural)]
    return torch.tensor([tokenizer(word).input_ids[1] for word in words])


class Reading(nn.Module):
    """A reader and the linear maps that ask it what it has read."""

    def __init__(self, reader: SdxlReader | SdReader, end: int) -> None:
        super().__init__()
        self.reader = reader
        self._end = end
        context, pooled = reader.empty()
        width = context.shape[-1]
        self.slots = _heads(width, SLOT_FIELDS)
        self.nouns = _heads(width, {name: SLOT_FIELDS[name] for name in NOUN_FIELDS})
        self.pooled = _heads(width if pooled is None else len(pooled), POOLED_FIELDS)

    def forward(self, ids: Tensor) -> Labels:
        """Answer with logits, laid out as the labels are and a last axis of classes."""
        return self.answer(ids, *self.reader(ids))

    def answer(self, ids: Tensor, context: Tensor, pooled: Tensor | None) -> Labels:
        """Answer from what the reader says of some captions.

        Shapes: ids [B, T], context [B, T, C], pooled [B, P].
        """
        rows, ends = torch.arange(len(ids)), end_of(ids, self._end)
        places = (ends[:, None] + 1 + torch.arange(SLOTS)).clamp(max=MAX_TOKENS - 1)
        whole = context[rows, ends] if pooled is None else pooled
        return Labels(
            slots=_answers(self.slots, context[rows[:, None], places]),
            nouns=_answers(self.nouns, context),
            pooled=_answers(self.pooled, whole),
        )


def _heads(width: int, fields: Mapping[str, int]) -> nn.ModuleDict:
    return nn.ModuleDict({name: nn.Linear(width, classes) for name, classes in fields.items()})


def _answers(heads: nn.ModuleDict, features: Tensor) -> dict[str, Tensor]:
    return {name: head(features).float() for name, head in heads.items()}


def _error(answers: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    errors = [
        nn.functional.cross_entropy(
            answers[name].flatten(0, -2), truth[name].flatten(), ignore_index=IGNORED
        )
        for name in truth
    ]
    return torch.stack(errors).sum()


class ReadingTraining(Training):
    """One run on captions that are worded afresh for every step."""

    def __init__(
        self, reader: SdxlReader | SdReader, tokenizer: CLIPTokenizer, recipe: ReadingRecipe
    ) -> None:
        # The backward pass of the fused attention costs a third of a step on a CPU.
        for encoder in reader.children():
            encoder.set_attn_implementation("eager")  # type: ignore[operator]
        super().__init__(Reading(reader, tokenizer.eos_token_id), recipe)
        self._settings = recipe
        self._tokenizer = tokenizer
        self._nouns = noun_ids(tokenizer)

    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the cross-entropy of all answers."""
        scenes = self._scenes(generator)
        ids = tokenize(self._tokenizer, scenes)
        truth = label(scenes, ids, self._nouns)
        reading = cast(Reading, self.model)
        noise = self._settings.noise_at(self.step)
        with torch.autocast("cpu", torch.bfloat16):
            context, pooled = reading.reader(ids)
            heard = context + noise * torch.randn(context.shape, generator=generator)
            answers = reading.answer(ids, heard, pooled)
        beside = _error(answers.nouns, truth.nouns) + _error(answers.pooled, truth.pooled)
        loudness: Tensor = self._settings.bottleneck * context.float().square().mean()
        return _error(answers.slots, truth.slots) + _BESIDE_SLOTS * beside + loudness

    def _scenes(self, generator: torch.Generator) -> list[Scene]:
        recipe, shares = self._recipe, torch.tensor(LATE_MIX)
        levels = torch.multinomial(shares, recipe.batch, replacement=True, generator=generator)
        indices = torch.randint(0, _SCENES, (recipe.batch,), generator=generator)
        return [
            training_scene(LEVELS[level], recipe.seed, index)
            for level, index in zip(levels.tolist(), indices.tolist(), strict=True)
        ]
