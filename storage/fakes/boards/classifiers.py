"""In-memory fake of `ClassifierBoard`."""

from core.boards.classifier import ClassifierVersion
from storage.boards.classifiers import KEPT, Classifiers


class MemoryClassifiers(Classifiers):
    """Versions in memory."""

    def __init__(self) -> None:
        self._versions: list[ClassifierVersion] = []
        self._cause: str | None = None

    async def want(self, cause: str) -> bool:
        is_new = self._cause is None
        self._cause = self._cause or cause
        return is_new

    async def wanted(self) -> str | None:
        return self._cause

    async def settle(self) -> None:
        self._cause = None

    async def publish(self, version: ClassifierVersion) -> list[ClassifierVersion]:
        every = [version, *self._versions]
        self._versions = every[:KEPT]
        return every[KEPT:]

    async def versions(self) -> list[ClassifierVersion]:
        return list(self._versions)
