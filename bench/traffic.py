"""Check generated traffic against what papers publish: masks, adapters, and caches of adapters.

Masks of edits: InstGenIE, Fig. 3. Adapters: how many a request brings (Katz, Table 1), how popular
each is (Fig. 5), how many a node sees (Fig. 7). The requests then go through the caches that
workers use, whose loads are counted (Fig. 6): ControlNets by popularity (`worker/control/server`),
LoRAs by last use (`worker/lora/cache`). Requests are drawn independently: the trace's hours and
campaigns, which favour what was used last, are in no text. One that draws an adapter twice brings
it once.

    python -m bench.traffic --quick
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange
from core.job import JobRequest
from core.log import configure
from core.uploads.lora import AppliedLora
from loadgen.mixes.adapters import CONTROLS, LORAS, AdapterService, AdapterTraffic
from loadgen.mixes.masks import MEANS, mask_ratios
from loadgen.mixes.popularity import choose
from worker.control.server.model_cache import ModelCache
from worker.lora.cache import LoraCache

#: Adapters of each request.
Asked = Sequence[NDArray[np.int32]]

#: Of the most popular ControlNets: how many, and their share of the calls (Fig. 5).
TOP = {AdapterService.A: (5, 0.98), AdapterService.B: (8, 0.95)}
#: LoRAs, the rare ones of which have less than a hundredth of the calls each, and their share.
RARE, RARE_SHARE = 0.01, 0.998
SIZES = (1, 2, 5, 8, 10, 50, 100)
#: Nodes of Fig. 7, and how unequal their requests are (standard deviation of the logarithm).
NODES, UNEVEN = 100, 1.0
#: What asks for LoRAs.
ASKED = JobRequest(prompt="", model="m", width=64, height=64, steps=1, guidance=1.0, seed=0)


def ask(traffic: AdapterTraffic, count: int, rng: np.random.Generator) -> Asked:
    """Draw the adapters of some requests."""
    counts = traffic.draw(count, rng)
    drawn = choose(traffic.popularity, int(counts.sum()), rng)
    return [np.unique(each) for each in np.split(drawn, np.cumsum(counts)[:-1])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A ControlNet of size one."""

    num_bytes: int = 1

    def close(self) -> None:
        """Nothing is kept of it."""


def controlnet_loads(requests: Asked, room: int) -> float:
    """Count the ControlNets that are loaded for a request, on average."""
    loaded: list[str] = []

    def load(name: str) -> Network:
        loaded.append(name)
        return Network()

    cache = ModelCache(load, max(room, max(len(each) for each in requests)))
    for each in requests:
        names = [str(number) for number in each]
        for name in names:
            cache.take(name)
        for name in names:
            cache.release(name)
    return len(loaded) / len(requests)


class CountingLoader:
    """Loads LoRAs at once, and counts them."""

    def __init__(self) -> None:
        self.loads = 0

    def load(
        self, use: AppliedLora, shapes: Shapes
    ) -> "Future[tuple[torch.Tensor, list[LayerChange]]]":
        """Give weights of nothing."""
        del use, shapes
        self.loads += 1
        answer: Future[tuple[torch.Tensor, list[LayerChange]]] = Future()
        answer.set_result((torch.empty(0), []))
        return answer


def lora_loads(requests: Asked, room: int) -> float:
    """Count the LoRAs that are loaded for a request, on average."""
    loader = CountingLoader()
    cache = LoraCache(loader, budget_bytes=room)
    for each in requests:
        loras = tuple(
            AppliedLora(id=str(number), key="", models=(), size_bytes=1, sha256="")
            for number in each
        )
        cache.ask(replace(ASKED, loras=loras), {})
    return loader.loads / len(requests)


def masks(count: int, seed: int) -> Iterator[tuple[str, Figure]]:
    """Check the share of an image under a mask (InstGenIE, Fig. 3): its mean, and that it falls."""
    for trace, mean in MEANS.items():
        drawn = mask_ratios(trace, count, np.random.default_rng(seed))
        yield f"masks, {trace}: mean", plain(float(drawn.mean()), "share")
        off = abs(float(drawn.mean()) / mean - 1)
        yield f"masks, {trace}: mean, off the paper's", at_most(off, 0.05, "share")
        yield f"masks, {trace}: below a fifth", plain(float((drawn < 0.2).mean()), "share")


def popularity(count: int, seed: int) -> Iterator[tuple[str, Figure]]:
    """Check the calls of each adapter (Katz, Fig. 5)."""
    for service, traffic in CONTROLS.items():
        drawn = np.concatenate(ask(traffic, count, np.random.default_rng(seed)))
        top, share = TOP[service]
        name = f"service {service}: top {top} of {traffic.population} ControlNets"
        yield name, at_least(float((drawn < top).mean()), share - 0.02, "share")
    for service, traffic in LORAS.items():
        rare = float((traffic.popularity < RARE).mean())
        name = f"service {service}: LoRAs of less than a hundredth each"
        yield name, at_least(rare, RARE_SHARE, "share")


#: Counts loads of some requests with room for so many.
Count = Callable[[Asked, int], float]
WAYS: Mapping[str, tuple[Mapping[AdapterService, AdapterTraffic], Count]] = {
    "ControlNets": (CONTROLS, controlnet_loads),
    "LoRAs": (LORAS, lora_loads),
}


def caches(count: int, seed: int) -> Iterator[tuple[str, Figure]]:
    """Count loads by room (Katz, Fig. 6)."""
    for what, (services, loads) in WAYS.items():
        for service, traffic in services.items():
            requests = ask(traffic, count, np.random.default_rng(seed))
            for room in SIZES:
                if room < traffic.population:
                    name = f"service {service}: {what} loaded a request, room for {room}"
                    yield name, plain(loads(requests, room), "")


def nodes(count: int, seed: int) -> Iterator[tuple[str, Figure]]:
    """Correlate a node's requests with the LoRAs that they name (Katz, Fig. 7)."""
    for service, traffic in LORAS.items():
        rng = np.random.default_rng(seed)
        shares = rng.lognormal(0.0, UNEVEN, NODES)
        received = np.maximum(2, count * NODES / 10 * shares / shares.sum()).astype(int)
        named = [len(np.unique(np.concatenate(ask(traffic, int(n), rng)))) for n in received]
        r = float(np.corrcoef(received, named)[0, 1])
        yield f"service {service}: requests of a node and its LoRAs", at_least(r, 0.9, "r")


def main(
    quick: bool = typer.Option(False, help="A fifth of the requests."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Check drawn traffic. Example: `python -m bench.traffic --quick`."""
    configure("WARNING", is_json=False)
    count = 1000 if quick else 5000
    found = [*masks(10 * count, 0), *popularity(count, 1), *caches(count, 1), *nodes(count, 2)]
    where = machine("requests drawn, none made")
    raise SystemExit(finish("traffic", dict(found), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
