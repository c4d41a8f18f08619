"""Say on the console what workers load, and what they could not, while the service runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx
import msgspec

from atelier_client.types.service import Loading, Worker
from cli.stack.probes import NO_TLS, read_fleet
from cli.stack.process import Tell

LOOK_S = 1.0
#: A load that goes on is told of again after so long.
AGAIN_S = 15.0


@dataclass(slots=True)
class _Told:
    """What was last said of one worker."""

    doing: tuple[str, str] | None = None  #: model and stage
    seconds: float = 0.0  #: of that, when it was said
    models: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)


class WarmingNews:
    """Compares looks at the fleet."""

    def __init__(self) -> None:
        """Have said nothing yet."""
        self._told: dict[str, _Told] = {}

    def of(self, workers: Sequence[Worker]) -> list[str]:
        """Say what is new since the last look, a line each."""
        return [line for worker in workers for line in self._of(worker)]

    def _of(self, worker: Worker) -> list[str]:
        name, told = worker.name.partition("@")[0], self._told.setdefault(worker.name, _Told())
        lines = [
            f"{name} cannot serve {model}: {why}"
            for model, why in worker.failures.items()
            if told.failures.get(model) != why
        ]
        came = [model for model in worker.models if model not in told.models]
        lines += [f"{name} serves {model}" for model in came]
        now = worker.loading
        if now is not None and _is_due(now, told):
            lines.append(f"{name} {in_words(now)}")
            told.seconds = now.seconds
        told.doing = (now.model, now.stage) if now is not None else None
        told.models, told.failures = worker.models, worker.failures
        return lines


async def tell_of_warming(api: str, headers: Mapping[str, str], tell: Tell) -> None:
    """Look at the fleet again and again, until cancelled."""
    news = WarmingNews()
    async with httpx.AsyncClient(verify=NO_TLS, headers=headers, trust_env=False) as http:
        while True:
            try:
                for line in news.of((await read_fleet(http, api)).workers):
                    tell(line)
            except (httpx.HTTPError, msgspec.DecodeError):
                pass  # the next look may tell
            await asyncio.sleep(LOOK_S)


def in_words(now: Loading) -> str:
    """Say what is done to a model, and how far that is."""
    far = f", {now.fraction:.0%}" if now.fraction is not None else ""
    since = f" ({now.seconds:.0f} s{far})" if now.seconds >= 1 else ""
    what = {"room": "makes room for", "timing": "times"}.get(now.stage, "loads")
    return f"{what} {now.model}{'' if now.serves else ' to try it'}{since}"


def _is_due(now: Loading, told: _Told) -> bool:
    if now.stage == "timing":  # again and again, between jobs
        return False
    return (now.model, now.stage) != told.doing or now.seconds - told.seconds >= AGAIN_S
