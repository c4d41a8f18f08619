"""Proteus baseline: one MILP, no prompt classes (Proteus §4, Eq. 1-7). Pure.

Taken from the paper: which model on which device and which share of each application's prompts
goes where, all in one program that maximises accuracy over all prompts. Simplified: its products
of variables are flows, identical devices are counted, and where the paper lowers the demand bit
by bit until the program is feasible, here the slack takes what cannot be served. Throughput is
that of this service's own batching. Proteus knows no approximate caching: every level is K = 0.
"""

from scheduler.allocation.policies.class_blind import allocate_blindly
from scheduler.allocation.policies.level_choice import narrowed, plain
from scheduler.allocation.problem import Allocation, Instance


def proteus(instance: Instance) -> Allocation:
    """Allocate for the highest mean accuracy; prompts of any class take any level.

    Raises: AllocationError if there is no allocation.
    """
    return allocate_blindly(narrowed(instance, plain))
