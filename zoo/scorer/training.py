"""Training loss of the scorer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor, nn
from transformers import CLIPModel, CLIPTokenizer

from zoo.scorer.architecture import EMBEDDING
from zoo.scorer.batches import Batch, batch, draw_scenes
from zoo.scorer.inventory import PATCH_FIELDS, QUESTIONS, Inventory
from zoo.scorer.judged import Judged
from zoo.training import Recipe, Training

#: CLIP's own bound of the logarithm of the scale.
_MAX_LOG_SCALE = 4.6052
_SEEDS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerRecipe(Recipe):
    """The settings of one scorer run."""

    steps: int = 2400
    decay_steps: int = 900
    warmup_steps: int = 100
    #: Scenes per step; each brings a twin.
    batch: int = 28
    #: Flawed pictures per step.
    flawed: int = 8
    #: Generated pictures per step.
    generated: int = 16
    #: Level -> share of the scenes.
    mix: Mapping[int, float] = field(
        default_factory=lambda: {1: 0.1, 2: 0.22, 3: 0.22, 4: 0.22, 5: 0.24}
    )


class Student(nn.Module):
    """The scorer and the heads that help it learn and are then left behind."""

    def __init__(self, clip: CLIPModel) -> None:
        super().__init__()
        self.clip = clip
        #: Asks either embedding what the scene holds.
        self.asks = nn.Linear(EMBEDDING, QUESTIONS)
        width: int = clip.config.vision_config.hidden_size
        #: Asks each patch which figure covers it.
        self.looks = nn.ModuleDict({name: nn.Linear(width, n) for name, n in PATCH_FIELDS.items()})
        self.norm = nn.LayerNorm(width)
        # The backward pass of fused attention on a CPU costs a third of a step.
        clip.set_attn_implementation("eager")

    def see(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Embed pictures, and give their patches before the last two layers, which gather them.

        Shapes: [B, 3, H, W] -> unit [B, E], [B, PATCHES, width].
        """
        out = self.clip.vision_model(pixel_values=pixels, output_hidden_states=True)
        embedding = self.clip.visual_projection(out.pooler_output)
        return nn.functional.normalize(embedding.float(), dim=-1), out.hidden_states[-3][:, 1:]

    def read(self, ids: Tensor) -> Tensor:
        """Embed captions.

        Shapes: [B, T] -> unit [B, E].
        """
        embedding = self.clip.text_projection(self.clip.text_model(input_ids=ids).pooler_output)
        return nn.functional.normalize(embedding.float(), dim=-1)

    @property
    def scale(self) -> Tensor:
        """What cosines are multiplied by."""
        bounded: Tensor = self.clip.logit_scale.clamp(max=_MAX_LOG_SCALE)
        return bounded.exp()


class ScorerTraining(Training):
    """One run; what a step sees depends on the recipe and its number alone."""

    def __init__(
        self,
        student: Student,
        tokenizer: CLIPTokenizer,
        flawed: Judged,
        generated: Judged,
        recipe: ScorerRecipe,
    ) -> None:
        super().__init__(student, recipe)
        self._student = student
        self._tokenizer = tokenizer
        self._pools = ((flawed, recipe.flawed), (generated, recipe.generated))
        self._settings = recipe

    def loss(self, generator: torch.Generator) -> Tensor:
        """Contrast, ranking and questions about the inventory, added up."""
        seen = self._batch(generator)
        with torch.autocast("cpu", torch.bfloat16):
            texts = self._student.read(seen.ids)
            images, patches = self._student.see(seen.pixels)
        own = len(seen.is_doubtful)
        logits = self._student.scale * texts @ images.T
        asked = sum(_answers(self._student, each[:own], seen.inventory) for each in (texts, images))
        looked = _looks(self._student, patches[:own], seen.inventory)
        ranked = ranking(logits[seen.pairs[:, 0], seen.pairs[:, 1]], seen.shares)
        total: Tensor = contrast(logits[:own, :own], seen.is_doubtful) + ranked + asked + looked
        return total

    def _batch(self, generator: torch.Generator) -> Batch:
        recipe = self._settings
        scenes = draw_scenes(recipe.mix, recipe.batch, recipe.seed, generator)
        chosen = []
        for pool, count in self._pools:
            numbers = torch.randint(len(pool.shares), (count,), generator=generator)
            chosen += [(pool, at) for at in numbers.tolist()]
        rng = Random(int(torch.randint(_SEEDS, (), generator=generator)))
        return batch(scenes, chosen, self._tokenizer, rng)


def contrast(logits: Tensor, is_doubtful: Tensor) -> Tensor:
    """Tell each caption's own picture from the others, and each picture's own caption.

    Source: CLIP (Radford et al. 2021), section 2.3.
    Shapes: [N, N] both.
    """
    kept = logits.masked_fill(is_doubtful, -torch.inf)
    own = torch.arange(len(logits))
    to_image = nn.functional.cross_entropy(kept, own)
    return (to_image + nn.functional.cross_entropy(kept.T, own)) / 2


def ranking(scores: Tensor, shares: Tensor) -> Tensor:
    """Put pairs with more right parts above pairs with fewer, whatever their captions.

    Source: RankNet (Burges et al. 2005), equation 3 with certain targets.
    Shapes: [P] both.
    """
    is_above = shares[:, None] > shares[None, :] + 1e-6
    behind = nn.functional.softplus(scores[None, :] - scores[:, None])
    return behind[is_above].mean()


def _answers(student: Student, embeddings: Tensor, inventory: Inventory) -> Tensor:
    """Ask embeddings what their scenes hold, the few yes and the many no counted alike."""
    logits = student.asks(embeddings * student.scale)
    wrong = nn.functional.binary_cross_entropy_with_logits(
        logits, inventory.answers, reduction="none"
    )
    weight = inventory.asked * (1 + 7 * inventory.answers)
    return (wrong * weight).sum() / weight.sum()


def _looks(student: Student, patches: Tensor, inventory: Inventory) -> Tensor:
    """Ask patches what covers them, covered and bare ones counted alike."""
    states = student.norm(patches.float())
    is_covered = inventory.patches["shape"] > 0
    total = torch.zeros(())
    for name, head in student.looks.items():
        wrong = nn.functional.cross_entropy(
            head(states).flatten(0, 1), inventory.patches[name].flatten(), reduction="none"
        ).view(is_covered.shape)
        total = total + (wrong[is_covered].mean() + wrong[~is_covered].mean()) / 2
    return total
