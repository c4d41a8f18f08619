"""Registry of allocation policies by name, imported on use."""

from importlib import import_module
from typing import Protocol, cast

from core.errors import ConfigurationError
from scheduler.allocation.problem import Allocation, Instance

#: `atelier` is ours; the others are those that the papers describe or compare with.
POLICIES: dict[str, str] = {
    "atelier": "scheduler.allocation.allocate:allocate",
    "argus": "scheduler.allocation.policies.argus:argus",
    "pac": "scheduler.allocation.policies.argus:pac",
    "proteus": "scheduler.allocation.policies.proteus:proteus",
    "infaas": "scheduler.allocation.policies.infaas:infaas",
    "sommelier": "scheduler.allocation.policies.sommelier:sommelier",
    "clipper-ha": "scheduler.allocation.policies.clipper:clipper_ha",
    "clipper-ht": "scheduler.allocation.policies.clipper:clipper_ht",
    "nirvana": "scheduler.allocation.policies.nirvana:nirvana",
}


class Policy(Protocol):
    """Divides a fleet among models and prompts."""

    def __call__(self, instance: Instance) -> Allocation: ...


def load_policy(name: str) -> Policy:
    """Import the policy of this name.

    Raises:
        ConfigurationError: there is no such policy.
    """
    if name not in POLICIES:
        raise ConfigurationError(f"ATELIER_POLICY: {name!r} is none of {', '.join(POLICIES)}")
    module, _, function = POLICIES[name].partition(":")
    return cast(Policy, getattr(import_module(module), function))
