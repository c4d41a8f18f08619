"""Registry of allocation policies by name."""

from collections.abc import Mapping
from typing import Protocol

from core.errors import ConfigurationError
from scheduler.allocation.allocate import allocate
from scheduler.allocation.policies.argus import ac, argus, pac
from scheduler.allocation.policies.clipper import clipper_ha, clipper_ht
from scheduler.allocation.policies.infaas import infaas
from scheduler.allocation.policies.nirvana import nirvana
from scheduler.allocation.policies.proteus import proteus
from scheduler.allocation.policies.sommelier import sommelier
from scheduler.allocation.problem import Allocation, Instance


class Policy(Protocol):
    """Divides a fleet among models and prompts."""

    def __call__(self, instance: Instance) -> Allocation: ...


def atelier(instance: Instance) -> Allocation:
    """Roll candidates out; its compiler is imported when it is used, by those who use it.

    Raises: AllocationError if there is no allocation.
    """
    from scheduler.allocation.rollout.planner import rollout

    return rollout(instance)


#: `atelier` is ours, and `program` what it starts from; the others are those that the papers
#: describe or compare with.
POLICIES: Mapping[str, Policy] = {
    "atelier": atelier,
    "program": allocate,
    "ac": ac,
    "argus": argus,
    "pac": pac,
    "proteus": proteus,
    "infaas": infaas,
    "sommelier": sommelier,
    "clipper-ha": clipper_ha,
    "clipper-ht": clipper_ht,
    "nirvana": nirvana,
}


def prepare(name: str) -> None:
    """Compile what a policy will run, so that its first decision does not wait for that."""
    if POLICIES.get(name) is atelier:
        from scheduler.allocation.rollout.warm import warm

        warm()


def find_policy(name: str, *, option: str = "ATELIER_POLICY") -> Policy:
    """Give the policy of this name. `option`: where it was said, for an error.

    Raises:
        ConfigurationError: there is no such policy.
    """
    if name not in POLICIES:
        raise ConfigurationError(f"{option}: {name!r} is none of {', '.join(POLICIES)}")
    return POLICIES[name]
