"""Which allocation policies are there? Names a person can set -> code, imported on use."""

from importlib import import_module
from typing import Protocol, cast

from core.errors import ConfigurationError
from scheduler.instance import Allocation, Instance

#: `atelier` is ours; the others are those that the papers describe or compare with.
POLICIES: dict[str, str] = {
    "atelier": "scheduler.allocate:allocate",
    "argus": "scheduler.policy.argus:argus",
    "pac": "scheduler.policy.argus:pac",
    "proteus": "scheduler.policy.proteus:proteus",
    "infaas": "scheduler.policy.infaas:infaas",
    "sommelier": "scheduler.policy.sommelier:sommelier",
    "clipper-ha": "scheduler.policy.clipper:clipper_ha",
    "clipper-ht": "scheduler.policy.clipper:clipper_ht",
    "nirvana": "scheduler.policy.nirvana:nirvana",
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
