"""The stock pipeline run alone, and the engine run on many: what parity compares."""

from functools import partial
from itertools import count

import diffusers
import numpy as np
import torch

from catalog.weights import read_absent
from core.family import FLOW_SAMPLERS, SAMPLERS
from worker.engine.engine import Engine
from worker.families.load import load


class Recorder:
    """A runner that keeps the float images it decodes, by seed of arrival."""

    def __init__(self, runner):
        self.runner = runner
        self.model, self.decodes_freely = runner.model, runner.decodes_freely
        self.images = []  #: float, [H, W, 3], in the order of decoding
        self.batches = []  #: number of slots of each forward call

    def open(self, request, seed, brought=None):
        return self.runner.open(request, seed, brought)

    def encoding(self, request):
        return self.runner.encoding(request)

    def forward(self, samples):
        self.batches.append(len(samples))
        return self.runner.forward(samples)

    def advance(self, samples, predictions):
        self.runner.advance(samples, predictions)

    def decode(self, sample):
        return self.runner.image(sample).cpu().numpy()

    def trim(self):
        self.runner.trim()

    def close(self):
        self.runner.close()


def load_recorder(folder, model, device="cpu", dtype="float32"):
    return Recorder(load(folder, model, device=device, dtype=dtype))


def load_stock(folder):
    """The stock pipeline; it wants to be told which parts a folder does without."""
    absent = dict.fromkeys(read_absent(folder))
    return diffusers.DiffusionPipeline.from_pretrained(folder, local_files_only=True, **absent)


def stock_scheduler(own, name, spacing=None):
    if name is None:
        return type(own).from_config(own.config)
    samplers = FLOW_SAMPLERS if type(own).__name__.startswith("FlowMatch") else SAMPLERS
    class_name, extra = samplers[name]
    spaced = {f"use_{spacing}_sigmas": True} if spacing else {}
    return getattr(diffusers, class_name).from_config(own.config, **extra | spaced)


def stock_steps(request):
    """How stock pipelines are told of the steps of a request."""
    told = {"num_inference_steps": request.steps, "guidance_scale": request.guidance}
    told |= {"sigmas": list(request.sigmas)} if request.sigmas else {}
    told |= {"eta": request.eta} if request.eta else {}
    rescale = request.guidance_rescale
    return told | ({"guidance_rescale": rescale} if rescale else {})


def stock_image(pipe, own_scheduler, request):
    """One image by the stock pipeline alone. Shapes: [H, W, 3] in [0, 1]."""
    pipe.scheduler = stock_scheduler(own_scheduler, request.scheduler, request.sigma_spacing)
    return pipe(
        request.prompt,
        negative_prompt=request.negative_prompt,
        width=request.width,
        height=request.height,
        **stock_steps(request),
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
    ).images[0]


def engine_images(recorder, arrivals, *, max_slots=8, max_rows=16, are_failing=False, inputs=None):
    """Run jobs through one engine. `arrivals`: (step of arrival, job); `inputs` of edits by job.

    Returns the images by job id, or its error where some are meant to fail.
    """
    # Every step takes as long as any other, so that all share one however busy the machine is.
    ticks = count(0.0, 1e3)  # of steps that long no prompt is worth a thread
    engine = Engine(
        max_slots=max_slots, max_rows=max_rows, slo_s=60, stopwatch=partial(next, ticks)
    )
    engine.attach(recorder)
    waiting, futures, step = sorted(arrivals, key=lambda pair: pair[0]), {}, 0
    while waiting or not all(future.done() for future in futures.values()):
        while waiting and waiting[0][0] <= step:
            job = waiting.pop(0)[1]
            futures[job.id] = engine.add(job, None, (inputs or {}).get(job.id))
        engine.step()
        step += 1
    return {
        job_id: future.exception() if are_failing and future.exception() else future.result().images
        for job_id, future in futures.items()
    }


def difference(a, b):
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())
