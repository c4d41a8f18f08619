"""Benchmark ControlNets in parallel with the base model: speedup (Katz §5 and §9.3).

What a user gets is an image, so the bars stand on images from prompt to pixels: by the stock
pipeline, by the engine with the ControlNets before each step, and with them beside it. Of two cores
one is the ControlNet's: decoders and text encoders are left, beside which nothing runs.

The base model has a core of its own and so has each ControlNet, as many as there are cores for, at
most three. Ratios of wall time, as waiting is what this is about; the ways of making an image take
turns step by step, so that whoever else uses the machine disturbs all alike. What a step late does
to images is the matter of `bench.controlnet_quality`.

The ideal comes from the parts of a step, by Gustafson's law as in Katz §9.3, and is stated twice:
from parts that are timed while all others are idle, and from the parts of the very steps that ran
side by side. What lies between them is lost to the machine (cores that share caches, memory and
other processes), what is left to the second is lost by the service: messages, copies, waking up.

A transformer has no part that does without its ControlNet, half as deep here: what it gains comes
from residuals that are sent one by one, which is compared with waiting for all of them.

    python -m bench.controlnet --quick
"""

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import torch
import typer

from bench.parts.control_process import ControlProcess, SlowLink, on_cores
from bench.parts.report import Figure, at_least, finish, machine, median, plain
from bench.parts.steered import Parts, Steered, TimedStep
from bench.parts.steered_joint import AtOnce, SteeredJoint
from worker.control.client.remote import RemoteControlNets
from worker.control.offers import Offer
from worker.control.stale import Stale

#: ControlNets of an image where there are cores for them, as in Katz §9.3.
MOST = 3

#: How much sooner an image must be there for it, the least.
GAIN = 1.1

#: What a slow link costs: 108 MiB over 10 Gbit/s take 91 ms, a third of a guided step of SDXL
#: (13.5 TFLOP) on the A10G of Katz §9.3 at two fifths of its 125 TFLOP/s.
LINK_SHARE = 0.33


@dataclass(slots=True)
class Rounds:
    """The same steps, made in three ways in turn."""

    alone: list[Parts] = field(default_factory=list)
    before: list[float] = field(default_factory=list)  #: s, ControlNets first, on the same core
    beside: list[TimedStep] = field(default_factory=list)
    cpu_before_s: float = 0.0
    cpu_beside_s: float = 0.0


class Pool:
    """A process for each ControlNet of an image."""

    def __init__(self, folder: Path, cores: list[int]) -> None:
        self.processes = [ControlProcess(folder, [core]) for core in cores]
        self._next = cycle(self.processes)

    @property
    def cpu_s(self) -> float:
        """CPU time that all have used so far, and this one."""
        return time.process_time() + sum(process.cpu_s for process in self.processes)

    def offer(self, offer: Offer) -> None:
        """Hand a session to whoever is next."""
        next(self._next).offer(offer)

    def close(self) -> None:
        for process in self.processes:
            process.close()


def take_turns(subject: Steered, pool: Pool, by: RemoteControlNets, images: int) -> Rounds:
    """Make images in all ways, a step of each in turn; the first step of each is left out."""
    rounds = Rounds()
    for _ in range(images):
        apart, before, beside = (subject.open(each) for each in (by, subject.here, by))
        for step in range(subject.steps):
            parts = subject.alone(apart, by)
            cpu = [pool.cpu_s]
            before_s = subject.step_s([before], subject.here)
            cpu += [pool.cpu_s]
            timed = subject.beside(beside, by)
            cpu += [pool.cpu_s]
            if step > 0:
                rounds.alone.append(parts)
                rounds.before.append(before_s)
                rounds.beside.append(timed)
                rounds.cpu_before_s += cpu[1] - cpu[0]
                rounds.cpu_beside_s += cpu[2] - cpu[1]
        for sample in (apart, before, beside):
            sample.close()
    return rounds


def speed(rounds: Rounds) -> dict[str, Figure]:
    """Compare ControlNets beside the base model with those before it, and with the ideals."""
    together = [timed.parts for timed in rounds.beside]
    steps_s = [timed.step_s for timed in rounds.beside]
    gains = [before / step_s for before, step_s in zip(rounds.before, steps_s, strict=True)]
    ideal, ideal_together = (
        median([each.one_by_one_s / each.side_by_side_s for each in parts])
        for parts in (rounds.alone, together)
    )
    kept, kept_together = (
        median([each.side_by_side_s / taken for each, taken in zip(parts, steps_s, strict=True)])
        for parts in (rounds.alone, together)
    )
    return {
        **_shown("alone", rounds.alone),
        **_shown("side by side", together),
        "step, ControlNets before it on one core": _ms(rounds.before),
        "step, ControlNets beside it": _ms(steps_s),
        "step, speed-up": plain(median(gains), "ratio"),
        "ideal speed-up, parts alone": plain(ideal, "ratio"),
        "ideal speed-up, parts side by side": plain(ideal_together, "ratio"),
        "CPU time that it adds": plain(rounds.cpu_beside_s / rounds.cpu_before_s - 1, "share"),
        "speed-up / ideal, parts alone": plain(kept, "ratio"),
        "speed-up / ideal, parts side by side": plain(kept_together, "ratio"),
    }


def whole(subject: Steered, by: RemoteControlNets, images: int) -> dict[str, Figure]:
    """Compare what images take from prompt to pixels; the three ways take turns."""
    stock, inline, beside = [], [], []
    for _ in range(images):
        stock.append(subject.stock_s())
        inline.append(subject.whole_s(subject.here))
        beside.append(subject.whole_s(by))
    return {
        "image, stock pipeline": _ms(stock),
        "image, ControlNets before each step on one core": _ms(inline),
        "image, ControlNets beside it": _ms(beside),
        "image, stock / ours": at_least(_gain(stock, beside), GAIN, "ratio"),
        "image, before / beside": at_least(_gain(inline, beside), GAIN, "ratio"),
    }


def _gain(theirs: list[float], ours: list[float]) -> float:
    return median([a / b for a, b in zip(theirs, ours, strict=True)])


def late(subject: Steered, far: RemoteControlNets, images: int) -> float:
    """Say how much faster a step late is than waiting, over a slow link; images take turns."""
    waiting, late = [], []
    for _ in range(images):
        waiting.append(subject.whole_s(far))
        late.append(subject.whole_s(far, Stale.ALWAYS))
    return _gain(waiting, late)


def streamed(folder: Path, core: int, steps: int, images: int) -> dict[str, Figure]:
    """Compare residuals that come one by one with all at once, for a transformer.

    `core`: of its ControlNet; the caller is on another.
    """
    subject = SteeredJoint(folder, steps=steps)
    with ExitStack() as stack:
        pool = Pool(folder, [core])
        stack.callback(pool.close)
        remote = RemoteControlNets(pool.offer, arena_bytes=2**28, patience_s=60.0)
        stack.callback(remote.close)
        subject.image_s(remote)  # the process loads what it needs
        ways = subject.here, AtOnce(remote), remote
        before, at_once, one_by_one = map(median, subject.in_turn(ways, images))
    return {
        "SD3, ControlNet before it on one core": _ms([before]),
        "SD3, before / beside, residuals at once": plain(before / at_once, "ratio"),
        "SD3, before / beside, one by one": at_least(before / one_by_one, GAIN, "ratio"),
        "SD3, at once / one by one": at_least(at_once / one_by_one, 1.2, "ratio"),
    }


def measure(folder: Path, *, steps: int, images: int) -> dict[str, Figure]:
    """Measure all on the cores that there are."""
    base, *others = sorted(os.sched_getaffinity(0))
    cores = others[:MOST] or [base]
    subject = Steered(folder, steps=steps, controlnets=len(cores))
    with ExitStack() as stack:
        pool = Pool(folder, cores)
        stack.callback(pool.close)
        stack.enter_context(on_cores([base]))
        near = RemoteControlNets(pool.offer, arena_bytes=2**28, patience_s=60.0)
        stack.callback(near.close)
        subject.image_s(near)  # the processes load what they need
        delivered = whole(subject, near, 2 * images)
        rounds = take_turns(subject, pool, near, images)
        alone = median([part.encoder_s + part.decoder_s for part in rounds.alone])
        link = SlowLink(pool, len(cores) * subject.residual_bytes() / (LINK_SHARE * alone))
        stack.callback(link.close)
        far = RemoteControlNets(link.offer, arena_bytes=64, patience_s=60.0, host="127.0.0.1")
        stack.callback(far.close)
        gain = late(subject, far, images)
        joint = streamed(folder / "joint", cores[0], steps, images)
    return {
        "cores": plain(1 + len(others), ""),
        "ControlNets": plain(len(cores), ""),
        **delivered,
        **speed(rounds),
        "slow link, image: waiting / a step late": at_least(gain, GAIN, "ratio"),
        **joint,
    }


def _shown(how: str, parts: list[Parts]) -> dict[str, Figure]:
    """Show what the parts of a step take."""
    return {
        f"encoder and middle, {how}": _ms([each.encoder_s for each in parts]),
        f"decoder, {how}": _ms([each.decoder_s for each in parts]),
        f"slowest ControlNet, {how}": _ms([max(each.controlnets_s) for each in parts]),
    }


def _ms(seconds: list[float]) -> Figure:
    return plain(median(seconds) * 1e3, "ms")


def main(
    quick: bool = typer.Option(False, help="Fewer images and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure ControlNets beside the base. Example: `python -m bench.controlnet --quick`."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), steps=5 if quick else 9, images=2 if quick else 6)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread a process")
    raise SystemExit(finish("controlnet", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
