"""Measure masked-block and activation-loading costs of a model."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from catalog.masking.costs import BlockShape, MaskingCosts
from core.job import JobRequest
from profiling.block_times import measure_compute, measure_copy, measure_load
from worker.diffusion.forward_context import ForwardContext
from worker.diffusion.runner import AnyRunner
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import EditRows, Row
from worker.masking.cache import RecordingCache


def masking_costs(runner: AnyRunner, request: JobRequest) -> MaskingCosts | None:
    """Fit what blocks and loads take; None for a model whose edits run in full.

    Hooks the blocks of the runner, so it is the last that is measured of it.
    """
    own = cast(Any, runner)
    blocks = MaskedBlocks(own.unet, own.architecture.cuts)
    sample = runner.open(request, seed=0)
    if not blocks.names or sample.rows != 2:
        return None

    def run(rows: Sequence[Row]) -> None:
        with blocks.hooked.running(ForwardContext(EditRows(rows))):
            runner.forward([sample])

    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        cells = tuple(sample.latents.shape[-2:])
        compute, rest_s, recorded = measure_compute(own.unet, blocks, run, cells)
        [path] = RecordingCache(Path(folder), 2**40).save("step", {0: recorded}).values()
        return MaskingCosts(
            compute=compute,
            load=measure_load(path, own.device),
            copy=measure_copy(recorded, own.device),
            rest_s=rest_s,
            blocks=tuple(
                BlockShape(
                    tokens=len(kept.values),
                    channels=kept.values.shape[1],
                    weights=blocks.weights[name],
                )
                for name, kept in recorded.items()
            ),
        )
