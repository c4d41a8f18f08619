"""All kinds of faults, by name."""

from collections.abc import Mapping

from bench.nemesis.kind import Kind
from bench.nemesis.kinds import clocks, failovers, messages, objects, processes, requests, stores
from bench.nemesis.service import Service

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for room in (processes, stores, failovers, messages, requests, objects, clocks)
    for kind in room.KINDS
}

#: The short form: one of each sort, two minutes together.
SHORT = (
    "worker killed",
    "all killed",
    "store killed",
    "everybody parted from the store",
    "messages doubled 50 times",
    "cancel against finish",
    "failover as planned",
    "object store lies",
)


def can(kind: Kind, service: Service) -> bool:
    """Tell whether this machine has what a kind of fault needs."""
    if kind.needs == "faketime":
        return bool(clocks.LIBRARY)
    return not kind.needs or kind.needs in service.disks
