"""Families of small models on CPUs and two kinds of GPUs, after Proteus: costs, accuracy, SLOs.

Printed: the fleet (20 CPUs, 10 GTX 1080 Ti, 10 V100), the families and how many variants each has
(Table 3), normalised accuracy of 80 to 100 %, an SLO of twice what the fastest variant takes on a
CPU, Zipf's law of 1.001 over families, a decision every 30 s. Not printed, and taken: every
latency. Here each variant takes 1.6 times the one before, a GPU is 3 or 6 times as fast as a CPU,
and gains by batches what a CPU does not. Three of the nine families, of four variants each, on half
of the fleet: the program of 17 families takes seconds to solve, and every policy solves it at every
decision. Times are ten times those of such models, and rates a tenth: what the service itself takes
is meant for jobs of seconds.
"""

from collections.abc import Mapping

import numpy as np

from core.application import Application
from core.model import Model
from loadgen.prompts import PromptSet
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import EVERY, SMALLER, LevelFamily, Measured
from scheduler.routing.classify import ANY
from worker.engine.slowdown import StepTime

TENANT = "simulated"
FLEET = {"cpu": 10, "gtx1080ti": 5, "v100": 5}
#: Seconds of the fastest variant of each family on a CPU, alone; the most asked for first.
FAMILIES = {"resnet": 0.5, "efficientnet": 0.4, "yolo": 0.8}
VARIANTS, SLOWER = 4, 1.6
#: Of a CPU's speed.
SPEEDS = {"cpu": 1.0, "gtx1080ti": 3.0, "v100": 6.0}
#: What each further item of a batch adds, in the time of one alone.
ADDED = {"cpu": 0.95, "gtx1080ti": 0.45, "v100": 0.3}
BATCHES = (1, 2, 4, 8)
#: Accuracy of the fastest variant, in that of the best.
LEAST = 0.8
LOAD_S = 2.0
SLO_MULTIPLE = 2.0


def variants(family: str) -> tuple[str, ...]:
    """Name the variants of a family, the fastest first."""
    return tuple(f"{family}-{number}" for number in range(VARIANTS))


def accuracies() -> Mapping[str, float]:
    """Give the normalised accuracy of each variant: it gains less and less."""
    steps = np.sqrt(np.linspace(0.0, 1.0, VARIANTS))
    return {
        name: float(LEAST + (1 - LEAST) * step)
        for family in FAMILIES
        for name, step in zip(variants(family), steps, strict=True)
    }


def alone_s(name: str, device: str) -> float:
    """Seconds of one item of a variant."""
    family, _, number = name.rpartition("-")
    return float(FAMILIES[family] * SLOWER ** int(number) / SPEEDS[device])


def profile() -> Profile:
    """Give the scheduler what a profile of these variants would say."""
    quality = {f"{name}@0": value for name, value in accuracies().items()}
    levels = tuple(sorted(quality, key=lambda level: alone_s(level.removesuffix("@0"), "cpu")))
    families = {
        kind: LevelFamily(levels=levels, shares={levels[0]: 1.0}, quality={ANY: quality})
        for kind in (EVERY, SMALLER)
    }
    steps = {
        device: {
            name: tuple(
                StepTime(
                    images=batch,
                    is_guided=False,
                    seconds=alone_s(name, device) * (1 + ADDED[device] * (batch - 1)),
                )
                for batch in BATCHES
            )
            for name in accuracies()
        }
        for device in FLEET
    }
    measured = Measured(
        load={device: dict.fromkeys(accuracies(), LOAD_S) for device in FLEET},
        quality={ANY: quality},
        families=families,
        steps=steps,
    )
    models = {
        name: Model(
            name=name,
            family="sd",
            default_steps=1,
            default_guidance=1.0,
            load_s=LOAD_S,
            step_s=alone_s(name, "cpu"),
            quality=value,
        )
        for name, value in accuracies().items()
    }
    return Profile(models=models, measured=measured)


def applications(multiple: float = SLO_MULTIPLE) -> Mapping[str, Application]:
    """Register a query type for each family, by the name that requests give it."""
    return {
        family: Application(
            name=family,
            tenant=TENANT,
            models=tuple(sorted(variants(family))),
            slo_s=multiple * alone_s(variants(family)[0], "cpu"),
        )
        for family in FAMILIES
    }


def prompts() -> PromptSet:
    """One input, as good at a level as the level is on average."""
    quality = accuracies()
    return PromptSet(
        texts=("an input",),
        classes=(None,),
        levels=tuple(f"{name}@0" for name in quality),
        quality=np.array([list(quality.values())]),
    )
