"""Clipper baseline: one model per application, chosen beforehand. Pure.

Taken from Proteus §6.1.1 and Argus §5.1: a person chose the model, either the most accurate one
(HA) or the fastest one (HT), and no load changes that; the program of Proteus divides the workers
among applications. Simplified: it divides them anew each period, where the paper does so once.
With one application there is nothing to divide, and the two are the same.
"""

from dataclasses import replace

from scheduler.allocation.policies.class_blind import allocate_blindly
from scheduler.allocation.policies.level_choice import Choice, fastest, most_accurate, narrowed
from scheduler.allocation.problem import Allocation, Instance


def clipper_ha(instance: Instance) -> Allocation:
    """Serve every prompt with the most accurate model that may.

    Raises: AllocationError if there is no allocation.
    """
    return _static(instance, most_accurate)


def clipper_ht(instance: Instance) -> Allocation:
    """Serve every prompt with the fastest model that may.

    Raises: AllocationError if there is no allocation.
    """
    return _static(instance, fastest)


def _static(instance: Instance, choice: Choice) -> Allocation:
    narrow = narrowed(instance, choice)
    chosen = {x.model for demand in narrow.demands for x in narrow.levels_of(demand)}
    worth = {model: float(model in chosen) for model in instance.worth}
    return allocate_blindly(replace(narrow, worth=worth))  # idle workers hold these as well
