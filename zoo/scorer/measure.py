"""Evaluate a scorer on held-out scenes, with true and generated pictures."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from diffusers import DiffusionPipeline

from worker.diffusion.scorer import Scorer
from zoo.checker import check
from zoo.scenes import LEVELS, Picture, Scene, draw, held_out
from zoo.scorer.changes import change
from zoo.scorer.figures import Agreement, Contrast, Figures, agreement, contrast
from zoo.scorer.judged import generate_mixed

#: All levels together.
MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A caption for a picture that it is wrong for."""

    picture: Picture
    #: The right caption.
    own: str
    #: The wrong one.
    wrong: str
    #: Level, or kind of change.
    labels: tuple[str, ...]


def measure(
    scorer: Scorer, makers: Mapping[str, DiffusionPipeline], n: int, generated: int, seed: int
) -> Figures:
    """Measure with n true pictures a level, and so many generated ones of each maker, by name."""
    scenes = [scene for level in LEVELS for scene in held_out(level, n, seed)]
    pictures = [draw(scene) for scene in scenes]
    hard = list(_hard(scenes, pictures, seed))
    mixed, within = (list(_random(scenes, pictures, Random(seed), each)) for each in (False, True))
    levels = [str(level) for level in LEVELS]
    by_level = _contrasts(scorer, hard, [MIXED, *levels])
    kinds = sorted({label for trial in hard for label in trial.labels} - {MIXED, *levels})
    return Figures(
        random=_contrasts(scorer, mixed, [MIXED]) | _contrasts(scorer, within, levels),
        hard=by_level,
        hard_by_kind=_contrasts(scorer, hard, kinds),
        generated=_agreements(scorer, makers, generated, seed),
    )


def _hard(scenes: Sequence[Scene], pictures: Sequence[Picture], seed: int) -> Iterable[Trial]:
    """Change one word of each caption; the checker must say that it is wrong for the picture."""
    for at, (scene, picture) in enumerate(zip(scenes, pictures, strict=True)):
        kind, twin = change(scene, Random(f"hard/{seed}/{at}"))
        if not check(picture, twin).is_right:
            labels = (MIXED, str(scene.level), str(kind))
            yield Trial(picture=picture, own=scene.caption, wrong=twin.caption, labels=labels)


def _random(
    scenes: Sequence[Scene], pictures: Sequence[Picture], rng: Random, is_same_level: bool
) -> Iterable[Trial]:
    """Give each picture another scene's caption, unless it happens to be right."""
    for scene, picture in zip(scenes, pictures, strict=True):
        other = rng.choice(
            [each for each in scenes if each.level == scene.level] if is_same_level else scenes
        )
        if not check(picture, other).is_right:
            labels = (MIXED, str(scene.level))
            yield Trial(picture=picture, own=scene.caption, wrong=other.caption, labels=labels)


def _contrasts(
    scorer: Scorer, trials: Sequence[Trial], labels: Sequence[str]
) -> dict[str, Contrast]:
    pictures = [trial.picture for trial in trials]
    images = scorer.embed_images(pictures)
    own, wrong = (
        (scorer.embed_text(captions) * images).sum(dim=-1).tolist()
        for captions in ([each.own for each in trials], [each.wrong for each in trials])
    )
    rows = list(zip(trials, own, wrong, strict=True))
    return {
        label: contrast(
            [right for trial, right, _ in rows if label in trial.labels],
            [bad for trial, _, bad in rows if label in trial.labels],
        )
        for label in labels
    }


def _agreements(
    scorer: Scorer, makers: Mapping[str, DiffusionPipeline], n: int, seed: int
) -> dict[str, Agreement]:
    """Judge generated pictures of mixed quality, levels by turns: all, by level, by maker."""
    rounds = [held_out(level, -(-n // len(LEVELS)), seed + 1) for level in LEVELS]
    scenes = [scene for turn in zip(*rounds, strict=True) for scene in turn]
    captions = [scene.caption for scene in scenes]
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, pipeline in makers.items():
        pictures = generate_mixed(pipeline, scenes, seed)
        scores = scorer.scores(captions, pictures).tolist()
        for scene, picture, score in zip(scenes, pictures, scores, strict=True):
            for label in (MIXED, str(scene.level), name):
                rows[label].append((score, check(picture, scene).share))
    names = [MIXED, *(str(level) for level in LEVELS), *makers]
    return {name: agreement(*zip(*rows[name], strict=True)) for name in names}
