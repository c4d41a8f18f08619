"""Which allocation policies are there? Names a person can set -> code, imported on use."""

from importlib import import_module
from typing import Protocol, cast

from core.errors import ConfigurationError
from scheduler.instance import Allocation, Instance

POLICIES: dict[str, str] = {"atelier": "scheduler.allocate:allocate"}


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
