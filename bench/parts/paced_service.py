"""A live service whose models take their time and compute nothing, and the world that it is."""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from catalog.models import read_models
from core.job import JobRequest
from core.model import Model
from core.settings import PROFILE
from loadgen.prompts import prompt_set
from loadgen.workload import Workload
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import (
    EVERY,
    SMALLER,
    About,
    LevelFamily,
    Measured,
    read_measured,
    write_measured,
)
from simulator.world import World
from worker.engine.slowdown import StepTime
from worker.families.paced import PacedRunner

DEVICE = "cpu"
SLOTS = 4  #: images that a worker makes at a time
STEPS = 20
#: model -> seconds of a step of one image, seconds to load, quality
MODELS: Mapping[str, tuple[float, float, float]] = {
    "best": (0.15, 1.5, 1.0),
    "middle": (0.075, 1.0, 0.9),
    "fast": (0.03, 0.5, 0.75),
    "brief": (0.02, 0.5, 0.6),
}
#: Those of a service that chooses among several.
FAMILY = ("best", "middle", "fast")
PROMPT = "a red circle"
REPEATS = 15


def make(folder: Path, names: Collection[str] = FAMILY) -> None:
    """Describe some of the models, and measure here what their steps and decoders take."""
    for name in names:
        step_s, load_s, quality = MODELS[name]
        (folder / name).mkdir(parents=True)
        model = Model(
            name=name,
            family="paced",
            default_steps=STEPS,
            default_guidance=1.0,
            step_s=step_s,
            load_s=load_s,
            quality=quality,
        )
        (folder / name / "atelier.json").write_bytes(msgspec.json.encode(model))
    write_measured(folder.parent / PROFILE, _measured(read_models(folder)))


def world_of(folder: Path, workload: Workload, *, workers: int, period_s: float) -> World:
    """Describe that service to the simulator."""
    profile = Profile(models=read_models(folder), measured=read_measured(folder.parent / PROFILE))
    return World(
        fleet={DEVICE: workers},
        profile=profile,
        workload=workload,
        prompts=prompt_set([PROMPT]),
        slots=SLOTS,
        period_s=period_s,
        memory_gib={DEVICE: 4.0},
    )


def _measured(models: Mapping[str, Model]) -> Measured:
    steps, fixed = {}, {}
    for name, model in models.items():
        runner = PacedRunner(model)
        sample = runner.open(_request(model), 0)
        steps[name] = tuple(
            StepTime(images=n, is_guided=False, seconds=_time(runner.forward, [sample] * n))
            for n in range(1, SLOTS + 1)
        )
        fixed[name] = _time(runner.decode, sample)
    quality = {f"{name}@0": MODELS[name][2] for name in models}
    levels = tuple(sorted(quality, key=quality.__getitem__))
    family = LevelFamily(levels=levels, shares={levels[-1]: 1.0}, quality={"any": quality})
    alone = {f"{name}@0": fixed[name] + STEPS * steps[name][0].seconds for name in models}
    return Measured(
        tau={DEVICE: alone},
        load={DEVICE: {name: MODELS[name][1] for name in models}},
        steps={DEVICE: steps},
        fixed={DEVICE: fixed},
        families={EVERY: family, SMALLER: family},
        about=About(device=DEVICE, steps=STEPS, guidance=dict.fromkeys(models, 1.0)),
    )


def _request(model: Model) -> JobRequest:
    size = model.default_size
    return JobRequest(
        prompt=PROMPT, model=model.name, width=size, height=size, steps=STEPS, guidance=1.0, seed=0
    )


def _time(call: Callable[..., object], argument: object) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call(argument)
        times.append(time.perf_counter() - began)
    return median(times)


def quality_of(levels: "list[str | None]") -> float:
    """Average the quality of levels as the profile has it."""
    known = [MODELS[level.rpartition("@")[0]][2] for level in levels if level]
    return float(np.mean(known)) if known else 0.0
