"""Teacher model: expected quality of each level from a scene's structure.

An image says little of its prompt: half of it is luck of the noise. What is learned here is told
what a scene asks for, figure by figure, so it need not find out from captions which words belong
together, and sees through more of the luck than whoever reads. It then says of every scene at every
level what a reader shall learn (knowledge distillation, Hinton et al. 2015, arXiv:1503.02531).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from classifier.labels import Qualities
from zoo.labels import POOLED_FIELDS, SLOT_FIELDS, SLOTS, Labels, asked
from zoo.scenes import Scene
from zoo.training import Recipe, Training

WIDTH, DEPTH, HEADS, DROPOUT = 96, 3, 4, 0.2
#: What is told of an image: whether every part is right, and which share of them.
VERDICTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherRecipe(Recipe):
    """The settings of one run: minutes suffice."""

    steps: int = 3200
    decay_steps: int = 3000
    batch: int = 256
    rate: float = 2e-3
    weight_decay: float = 0.05
    average: float = 0.995


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Images:
    """Judged images, one a place."""

    rows: Tensor  #: of their scenes, [N]
    levels: Tensor  #: columns, [N]
    verdicts: Tensor  #: [N, VERDICTS], in [0, 1]


class Teacher(nn.Module):
    """Reads a scene as a set: one token for the whole, one for each figure."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.slots, self.whole = _embeddings(SLOT_FIELDS), _embeddings(POOLED_FIELDS)
        self.places = nn.Parameter(0.02 * torch.randn(1 + SLOTS, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, dropout=DROPOUT, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        self.heads = nn.Linear(WIDTH, VERDICTS * levels)

    def forward(self, scenes: Labels) -> Tensor:
        """Expect verdicts, as logits. Shapes: [B, SLOTS] of each field -> [B, L, VERDICTS]."""
        figures, whole = _summed(self.slots, scenes.slots), _summed(self.whole, scenes.pooled)
        is_empty = pad(scenes.slots["shape"] == 0, (1, 0))
        tokens = torch.cat([whole[:, None], figures], dim=1) + self.places
        states = self.norm(self.layers(tokens, src_key_padding_mask=is_empty))
        kept = (~is_empty)[..., None]
        pooled = self.dropout((states * kept).sum(1) / kept.sum(1))
        logits: Tensor = self.heads(pooled)
        return logits.view(len(logits), -1, VERDICTS)


class Teaching(Training):
    """One run over judged images."""

    def __init__(self, scenes: Labels, images: Images, levels: int, recipe: TeacherRecipe) -> None:
        torch.manual_seed(recipe.seed)
        super().__init__(Teacher(levels), recipe)
        self._scenes = scenes
        self._images = images

    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the cross-entropy with what came."""
        size = (self._recipe.batch,)
        some = torch.randint(len(self._images.rows), size, generator=generator)
        logits = self.model(_chosen(self._scenes, self._images.rows[some]))
        found = logits[torch.arange(len(some)), self._images.levels[some]]
        return binary_cross_entropy_with_logits(found, self._images.verdicts[some])


def taught(scenes: Sequence[Scene], images: Images, levels: int, recipe: TeacherRecipe) -> Teacher:
    """Train a teacher on images of some scenes."""
    run = Teaching(asked(scenes), images, levels, recipe)
    for _ in range(recipe.steps):
        run.advance()
    teacher = run.average.eval()
    assert isinstance(teacher, Teacher)
    return teacher


@torch.no_grad()
def expected(teachers: Sequence[Teacher], scenes: Sequence[Scene]) -> Qualities:
    """Average the qualities that some teachers expect. Shapes: returns [P, L] in (0, 1)."""
    labels = asked(scenes)
    several = torch.stack([teacher(labels).sigmoid() for teacher in teachers])
    return np.asarray(several.mean(dim=(0, 3)), np.float32)


def _embeddings(fields: Mapping[str, int]) -> nn.ModuleDict:
    return nn.ModuleDict({name: nn.Embedding(size, WIDTH) for name, size in fields.items()})


def _summed(embeddings: nn.ModuleDict, fields: Mapping[str, Tensor]) -> Tensor:
    return torch.stack([embeddings[name](each) for name, each in fields.items()]).sum(0)


def _chosen(scenes: Labels, rows: Tensor) -> Labels:
    slots = {name: each[rows] for name, each in scenes.slots.items()}
    return Labels(slots, {}, {name: each[rows] for name, each in scenes.pooled.items()})
