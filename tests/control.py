"""A tiny model, ControlNets with random weights, and the stock pipeline over both."""

import multiprocessing
import os
import signal
import threading

import msgspec
import numpy as np
import torch
from diffusers import ControlNetModel
from PIL import Image

from tests.control_worker import hold, run
from tests.stock import load_recorder, load_stock, stock_scheduler
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.stale import Stale
from worker.diffusion.runner import ControlImages


class ControlHouse:
    """One base model and two ControlNets in a folder."""

    def __init__(self, folder, save, stock_class):
        self.folder = folder
        self.model = save(folder / "base")
        self.pipe = load_stock(folder / "base")
        self.stock_class = stock_class
        self.nets = {}
        for seed, (name, order) in enumerate({"edges": "rgb", "depth": "bgr"}.items()):
            a_controlnet(self.pipe.unet, seed, order).save_pretrained(folder / name)
            # Kernels look at how weights are aligned in memory, so stock reads them from disk too.
            self.nets[name] = ControlNetModel.from_pretrained(folder / name)

    def recorder(self, controlnets, stale=Stale.NEVER):
        """The engine's runner, steered by these."""
        recorder = load_recorder(self.folder / "base", self.model)
        recorder.runner.overlays.steer(controlnets, stale)
        return recorder

    def residents(self, room=2**30):
        return ModelCache(self.load, room)

    def load(self, name):
        return load_network(self.folder / name, device="cpu", dtype="float32")

    def stock_image(self, request, conditions):
        """One image by the stock pipeline alone. Shapes: [H, W, 3] in [0, 1]."""
        controls = request.controls
        parts = {
            **self.pipe.components,
            "controlnet": _one_or_all([self.nets[control.controlnet] for control in controls]),
            "scheduler": stock_scheduler(self.pipe.scheduler, request.scheduler),
        }
        pipe = self.stock_class(**parts)
        pipe.set_progress_bar_config(disable=True)
        return pipe(
            request.prompt,
            image=_one_or_all([Image.fromarray(pixels) for pixels in conditions.images]),
            negative_prompt=request.negative_prompt,
            width=request.width,
            height=request.height,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            controlnet_conditioning_scale=_one_or_all([c.scale for c in controls]),
            control_guidance_start=[c.start for c in controls],
            control_guidance_end=[c.end for c in controls],
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
        ).images[0]


class ControlPool:
    """ControlNet workers as processes; offers go to one after another, as from a queue."""

    def __init__(self, folder):
        self.folder = folder
        self.workers = []  #: process and pipe of each
        self.in_use = None  #: who took the last offer
        self.hanging = None  #: who was stopped last
        self.is_away = False  #: whether nobody takes offers
        self._spawn = multiprocessing.get_context("forkserver")
        self._spawn.set_forkserver_preload(["tests.control_worker"])
        self._ended = self._spawn.SimpleQueue()
        self._lock = threading.Lock()

    def start(self, count=1):
        """Start some, and return once all read offers: later ones would be made again."""
        started = [self._start() for _ in range(count)]
        for _, pipe in started:
            assert pipe.recv() == "it reads offers"
        self.workers += started

    def start_first(self, *, load_s=0.0):
        """Start one that takes the next offer, and takes its time to load a ControlNet."""
        first = self._start(load_s)
        assert first[1].recv() == "it reads offers"
        self.workers.insert(0, first)

    def start_a_base_worker(self):
        """Start one that holds a session for ever, and return once that has begun."""
        theirs, ours = self._spawn.Pipe()
        process = self._spawn.Process(target=hold, args=(theirs,), daemon=True)
        process.start()
        while (told := ours.recv()) != "it has begun":
            self.offer(told)
        return process

    def offer(self, offer):
        with self._lock:
            if not self.is_away:
                self.in_use = self.workers.pop(0)
                self.workers.append(self.in_use)
                endpoints = offer.endpoints[-1:]  # TCP, where there is a choice
                self.in_use[1].send(msgspec.structs.replace(offer, endpoints=endpoints))

    def stop_the_one_in_use(self):
        """Let it do nothing more until it is killed, as if it hung."""
        with self._lock:
            self.workers.remove(self.in_use)
            self.hanging = self.in_use
            os.kill(self.hanging[0].pid, signal.SIGSTOP)

    def kill_the_one_in_use(self):
        with self._lock:
            if self.in_use in self.workers:
                self.workers.remove(self.in_use)
            self._kill(self.in_use)

    def kill_the_one_that_hangs(self):
        self._kill(self.hanging)

    def next_end(self):
        """Wait for the next session to be over, and say why it is; an offer made twice is none."""
        while (reason := self._ended.get()) == "this worker has it already":
            pass
        return reason

    def close(self):
        for process, pipe in self.workers:
            pipe.send(None)
            process.join()
            pipe.close()
        self._ended.close()

    def _start(self, load_s=0.0):
        theirs, ours = self._spawn.Pipe()
        args = (self.folder, theirs, self._ended, load_s)
        process = self._spawn.Process(target=run, args=args, daemon=True)
        process.start()
        return process, ours

    def _kill(self, worker):
        process, pipe = worker
        process.kill()
        process.join()
        pipe.close()


def some_conditions(count, seed=0, side=32):
    """Random pictures to keep to."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8)
    return ControlImages(images=tuple(images))


def a_controlnet(unet, seed, order="rgb"):
    """Random where stock starts with zeros, or nothing would be added."""
    torch.manual_seed(20 + seed)
    net = ControlNetModel.from_unet(
        unet,
        conditioning_embedding_out_channels=(8, 16),
        controlnet_conditioning_channel_order=order,
    )
    for name, weight in net.named_parameters():
        if "controlnet_" in name and name.endswith("weight"):
            torch.nn.init.normal_(weight, std=0.1)
    return net.eval()


def _one_or_all(values):
    """Stock takes no list of one."""
    return values[0] if len(values) == 1 else values
