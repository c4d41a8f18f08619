"""Start and stop the programs of the stack in order, and keep them alive."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from cli.stack.process import Backoff, ServiceSpec, SupervisedProcess, Tell

#: Services that start together, once those of the stages before them are ready.
Stage = Sequence[ServiceSpec]


class Supervisor:
    """Starts stage after stage, keeps every program alive, stops in the reverse order."""

    def __init__(self, stages: Sequence[Stage], *, logs: Path, tell: Tell) -> None:
        self._tell = tell
        self.stages = [
            [
                SupervisedProcess(service, logs / f"{service.name}.log", tell, Backoff())
                for service in stage
            ]
            for stage in stages
        ]

    @property
    def children(self) -> list[SupervisedProcess]:
        """Every program, in the order of their start."""
        return [child for stage in self.stages for child in stage]

    async def start(self) -> None:
        """Start everything; on return everything is ready.

        Raises:
            Unavailable: a program did not become ready. What runs is left for `stop`.
        """
        for stage in self.stages:
            for child in stage:
                await child.start()
            for child in stage:
                await child.wait_ready()
                self._tell(f"{child.service.name} is ready")
        for child in self.children:
            child.check_first_life()

    async def stop(self) -> None:
        """Stop everything, last stage first; the programs of one stage stop together.

        One that cannot be stopped in order is killed, and keeps nobody else from it.
        """
        for stage in reversed(self.stages):
            stops = (child.stop() for child in stage)
            ended = await asyncio.gather(*stops, return_exceptions=True)
            for child, error in zip(stage, ended, strict=True):
                if error is not None:
                    child.kill()
                    self._tell(f"{child.service.name} was not stopped in order: {error}")

    def kill(self) -> None:
        """Kill everything, now: for somebody who does not want to wait for `stop`."""
        for child in self.children:
            child.kill()
