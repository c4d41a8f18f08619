"""In-memory fakes of the stores, for tests without a server."""

from storage.fakes.boards.classifiers import MemoryClassifiers
from storage.fakes.boards.demand import MemoryDemand
from storage.fakes.boards.fleet import (
    MemoryBoard,
    MemoryFleet,
    MemoryFleetReader,
    MemoryLeadership,
)
from storage.fakes.boards.history import MemoryHistory
from storage.fakes.boards.scores import MemoryScores
from storage.fakes.events import MemoryEvents
from storage.fakes.jobs import MemoryExpectedJobs, MemoryJobs
from storage.fakes.leases import MemoryLeases
from storage.fakes.objects import MemoryObjects
from storage.fakes.outbox import MemoryOutbox
from storage.fakes.store import MemoryStore
from storage.fakes.table import MemoryTable
from storage.fakes.tenants import MemoryApplications, MemoryAudit, MemoryUsage
from storage.fakes.upkeep import MemorySweeper
from storage.fakes.uploads import MemoryUploads
from storage.fakes.vectors import MemoryVectors

__all__ = [
    "MemoryApplications",
    "MemoryAudit",
    "MemoryBoard",
    "MemoryClassifiers",
    "MemoryDemand",
    "MemoryEvents",
    "MemoryExpectedJobs",
    "MemoryFleet",
    "MemoryFleetReader",
    "MemoryHistory",
    "MemoryJobs",
    "MemoryLeadership",
    "MemoryLeases",
    "MemoryObjects",
    "MemoryOutbox",
    "MemoryScores",
    "MemoryStore",
    "MemorySweeper",
    "MemoryTable",
    "MemoryUploads",
    "MemoryUsage",
    "MemoryVectors",
]
