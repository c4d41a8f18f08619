"""In-memory twins with the same methods and the same answers, for tests without a server."""

from storage.memory.applications import MemoryApplications
from storage.memory.classifiers import MemoryClassifiers
from storage.memory.demand import MemoryDemand
from storage.memory.events import MemoryEvents
from storage.memory.fleet import MemoryBoard, MemoryFleet, MemoryLeadership
from storage.memory.jobs import MemoryJobs
from storage.memory.leases import MemoryLeases
from storage.memory.objects import MemoryObjects
from storage.memory.outbox import MemoryOutbox
from storage.memory.scores import MemoryScores
from storage.memory.state import MemoryStore
from storage.memory.upkeep import MemorySweeper
from storage.memory.uploads import MemoryUploads
from storage.memory.vectors import MemoryVectors

__all__ = [
    "MemoryApplications",
    "MemoryBoard",
    "MemoryClassifiers",
    "MemoryDemand",
    "MemoryEvents",
    "MemoryFleet",
    "MemoryJobs",
    "MemoryLeadership",
    "MemoryLeases",
    "MemoryObjects",
    "MemoryOutbox",
    "MemoryScores",
    "MemoryStore",
    "MemorySweeper",
    "MemoryUploads",
    "MemoryVectors",
]
