"""Read what a Redis server says that it has done."""

import time
from dataclasses import dataclass

from redis import Redis


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a Redis server says that it has done."""

    at: float  #: monotonic s
    commands: int  #: those within scripts among them
    cpu_s: float
    used_bytes: int

    @classmethod
    def now(cls, client: Redis) -> "Reading":
        info = client.info()
        cpu_s = info["used_cpu_user"] + info["used_cpu_sys"]
        return cls(
            at=time.monotonic(),
            commands=info["total_commands_processed"],
            cpu_s=cpu_s,
            used_bytes=info["used_memory"],
        )

    def commands_since(self, before: "Reading") -> float:
        """Count commands, less the one that read this."""
        return self.commands - before.commands - 1

    def commands_a_second(self, before: "Reading") -> float:
        return self.commands_since(before) / (self.at - before.at)

    def cpu_a_second(self, before: "Reading") -> float:
        return (self.cpu_s - before.cpu_s) / (self.at - before.at)
