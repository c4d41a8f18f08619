"""What is left of a ControlNet's time when it runs beside the base model? Katz §5 and §9.3.

A random model of SDXL's kind and a ControlNet of it, each with a core of its own; ratios of wall
time within one run, as waiting is what this is about. The ideal comes from the parts of a step as
they are where they run: encoder and ControlNet at the same time, then the decoder. What a step
late does to images is the matter of `bench.controlnet_quality`.

    python -m bench.controlnet --quick
"""

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import diffusers
import numpy as np
import torch
import typer

from bench.parts.control_process import ControlProcess, SlowLink, on_cores
from bench.parts.random_sdxl import MEDIUM, build
from bench.report import Figure, at_least, finish, machine, median, plain
from core.job import Control, JobRequest
from core.variant import Model
from worker.control.local import LocalControlNets, LocalSession
from worker.control.network import Network, Step
from worker.control.pace import Stale
from worker.control.remote import RemoteControlNets
from worker.control.remote_session import RemoteSession
from worker.control.residents import Residents
from worker.control.session import ControlNets
from worker.families.sample import UNetSample
from worker.families.sdxl import SdxlRunner
from worker.runner import Conditions

SIDE = 64

#: What a slow link costs: 108 MiB over 10 Gbit/s take 91 ms, a third of a guided step of SDXL
#: (13.5 TFLOP) on the A10G of Katz §9.3 at two fifths of its 125 TFLOP/s.
LINK_SHARE = 0.33


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the parts of a step take."""

    encoder_s: float  #: with the middle: until the first block of the decoder
    decoder_s: float
    controlnet_s: float

    @property
    def serial_s(self) -> float:
        return self.encoder_s + self.decoder_s + self.controlnet_s

    @property
    def parallel_s(self) -> float:
        """What is left if nothing is lost (Katz §9.3, by Gustafson's law)."""
        return max(self.encoder_s, self.controlnet_s) + self.decoder_s


class Subject:
    """One base model, whose image is steered by a ControlNet here or elsewhere."""

    def __init__(self, folder: Path, steps: int) -> None:
        model = Model(name="medium", family="sdxl", default_size=SIDE, max_size=SIDE)
        pipe = build(MEDIUM, device="cpu", dtype=torch.float32)
        self.steps = steps
        self.runner = SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)
        controlnet = diffusers.ControlNetModel.from_unet(
            pipe.unet, conditioning_embedding_out_channels=(16, 32)
        )
        for name, weight in controlnet.named_parameters():
            if "controlnet_" in name and name.endswith("weight"):
                torch.nn.init.normal_(weight, std=0.02)
        controlnet.save_pretrained(folder / "net")
        self.network = Network.load(folder / "net", device="cpu", dtype="float32")
        self.here = LocalControlNets(Residents(lambda name: self.network, 2**32))
        self.runner.overlays.steer(self.here)
        self.at = 0.0  #: when the decoder began last, perf_counter s
        self.runner.unet.up_blocks[0].register_forward_pre_hook(self._note)

    def open(self, controlnets: ControlNets, stale: Stale = Stale.NEVER) -> UNetSample:
        """Begin an image, and return once all that it needs is there."""
        steering = self.runner.overlays._steering
        assert steering is not None
        steering._controlnets, steering._stale = controlnets, stale
        request = JobRequest(
            prompt="a red circle and two blue squares",
            model="medium",
            width=SIDE,
            height=SIDE,
            steps=self.steps,
            guidance=5.0,
            seed=1,
            controls=(Control(controlnet="net", image=""),),
        )
        picture = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        sample = self.runner.open(request, 1, Conditions(images=(picture,)))
        while sample.waits_for() is not None:
            time.sleep(0.001)
        return sample

    def step_s(self, controlnets: ControlNets, stale: Stale = Stale.NEVER) -> float:
        """Make one image; the seconds of its middle step, the first apart."""
        sample = self.open(controlnets, stale)
        taken = [self._step(sample) for _ in range(self.steps)]
        sample.close()
        return median(taken[1:])

    def parts(self, controlnets: RemoteControlNets) -> Parts:
        """Time what steps consist of: the ControlNet on its core, then the base on its own."""
        sample = self.open(controlnets)
        [steered], sample.controls = sample.controls, ()
        session = steered.session
        assert isinstance(session, RemoteSession)
        encoder, decoder, controlnet = [], [], []
        for _ in range(self.steps):
            ask = steered.ask(sample.sampler, sample.latents)
            assert ask is not None
            asked = time.perf_counter()
            controlnets.ask([ask])
            controlnets.answer(ask)
            begun = time.perf_counter()
            ended = begun + self._step(sample)
            assert session.last is not None
            controlnet.append(begun - asked - session.last.transfer_s)
            encoder.append(self.at - begun)
            decoder.append(ended - self.at)
        session.close()
        return Parts(
            encoder_s=median(encoder[1:]),
            decoder_s=median(decoder[1:]),
            controlnet_s=median(controlnet[1:]),
        )

    def _step(self, sample: UNetSample) -> float:
        begun = time.perf_counter()
        [prediction] = self.runner.forward([sample])
        self.runner.advance(sample, prediction)
        return time.perf_counter() - begun

    def _note(self, *_: object) -> None:
        self.at = time.perf_counter()


def speed(folder: Path, steps: int, rounds: int) -> dict[str, Figure]:
    """Compare a ControlNet beside the base model with one before it, and with the ideal."""
    base, *others = sorted(os.sched_getaffinity(0))
    subject = Subject(folder, steps)
    with ExitStack() as stack:
        process = ControlProcess(folder, others or [base])
        stack.callback(process.close)
        stack.enter_context(on_cores([base]))
        beside = _connect(process, stack)
        subject.step_s(beside)  # the process loads what it needs
        parts, serial, parallel, added = [], [], [], []
        for _ in range(rounds):
            parts.append(subject.parts(beside))
            cpu = [time.process_time() + process.cpu_s]
            parallel.append(subject.step_s(beside))
            cpu += [time.process_time() + process.cpu_s]
            serial.append(subject.step_s(subject.here))
            cpu += [time.process_time() + process.cpu_s]
            added.append((cpu[1] - cpu[0]) / (cpu[2] - cpu[1]) - 1)
        step_s = median([part.encoder_s + part.decoder_s for part in parts])
        link = SlowLink(process, _bytes(subject) / (LINK_SHARE * step_s))
        stack.callback(link.close)
        far = _connect(link, stack)
        waiting, late = [], []
        for _ in range(rounds):
            waiting.append(subject.step_s(far))
            late.append(subject.step_s(far, Stale.ALWAYS))
    gains = [part.serial_s / step_s for part, step_s in zip(parts, parallel, strict=True)]
    ideals = [part.serial_s / part.parallel_s for part in parts]
    of_ideal = [gain / ideal for gain, ideal in zip(gains, ideals, strict=True)]
    return {
        "cores": plain(1 + len(others), ""),
        "encoder and middle": plain(median([part.encoder_s for part in parts]) * 1e3, "ms"),
        "decoder": plain(median([part.decoder_s for part in parts]) * 1e3, "ms"),
        "ControlNet": plain(median([part.controlnet_s for part in parts]) * 1e3, "ms"),
        "step, ControlNet before it on one core": plain(median(serial) * 1e3, "ms"),
        "step, ControlNet beside it": plain(median(parallel) * 1e3, "ms"),
        "speed-up": plain(median(gains), "ratio"),
        "ideal speed-up": plain(median(ideals), "ratio"),
        "CPU time that it adds to an image": plain(median(added), "share"),
        "speed-up / ideal": at_least(median(of_ideal), 0.85, "ratio"),
        "slow link: a step late / waiting": at_least(
            median([one / other for one, other in zip(waiting, late, strict=True)]), 1.2, "ratio"
        ),
    }


def _connect(to: ControlProcess | SlowLink, stack: ExitStack) -> RemoteControlNets:
    is_far = isinstance(to, SlowLink)
    connected = RemoteControlNets(
        to.offer,
        arena_bytes=64 if is_far else 2**28,
        patience_s=60.0,
        host="127.0.0.1" if is_far else "",
    )
    stack.callback(connected.close)
    return connected


def _bytes(subject: Subject) -> int:
    """Count what one step sends back."""
    sample = subject.open(subject.here)
    session = sample.controls[0].session
    assert isinstance(session, LocalSession)
    step = Step(begun=session.begun, latents=sample.latents, time=500.0, scale=1.0)
    [residuals] = subject.network.residuals([step])
    sample.close()
    return sum(each.numel() * each.element_size() for each in residuals)


def main(
    quick: bool = typer.Option(False, help="Fewer rounds and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure ControlNets beside the base. Example: `python -m bench.controlnet --quick`."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        figures = speed(Path(folder), 5 if quick else 8, 2 if quick else 5)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread a process")
    raise SystemExit(finish("controlnet", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
