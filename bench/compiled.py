"""Benchmark torch.compile: capture time, and kernels of compiled blocks.

A UNet of SDXL's depth, narrow, as capturing takes its time by operations and not by widths: all of
it as one graph, and block by block as the engine does it. Then the two blocks that Katz (§7) writes
kernels for, GroupNorm before SiLU and GEGLU: which kernels a compiler makes of them, and on a GPU
how much faster these are, at SDXL's sizes.

    taskset -c 0 python -m bench.compiled
    python -m bench.compiled --device cuda                         with times of compiled blocks
"""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import typer
from diffusers.models.activations import GEGLU
from torch import Tensor
from torch._inductor.utils import run_and_get_code

from bench.parts.random_sdxl import SDXL, TINY, build
from bench.parts.report import Figure, at_least, finish, machine, median, plain
from worker.diffusion.forward_context import HookedModel
from worker.diffusion.stock import Module, ResnetBlock
from worker.families.unet import UNET
from worker.pipeline.compiled_blocks import Regions

#: SDXL's blocks, each as narrow as can be.
NARROW = replace(TINY, channels=(32, 64, 128), heads=(1, 2, 4), depth=SDXL.depth)
ROWS = (2, 4)  #: sizes of batches that are captured
ROUNDS = 20
CHANNELS_LAST = torch.channels_last  #: as workers order images on a GPU

#: Calls a UNet for so many rows.
Call = Callable[[int], object]


def capturing() -> dict[str, Figure]:
    """Capture a UNet for two sizes of batches, both ways, with no compiler behind."""
    torch.compile(torch.nn.Linear(1, 1), backend="eager")(torch.ones(1, 1))  # imports all of it
    spent_s, graphs = {}, {}
    for way, compiled in {"in one graph": _whole, "block by block": _by_blocks}.items():
        torch.compiler.reset()
        torch._dynamo.utils.counters.clear()
        call = compiled(build(NARROW, device="cpu", dtype=torch.float32).unet)
        spent_s[way] = median([_cpu_s(partial(call, rows)) for rows in ROWS])
        graphs[way] = torch._dynamo.utils.counters["stats"]["unique_graphs"] / len(ROWS)
    ratio = spent_s["in one graph"] / spent_s["block by block"]
    return {
        **{f"capture for one size, {way}": plain(each, "CPU s") for way, each in spent_s.items()},
        **{f"graphs for one size, {way}": plain(each, "graphs") for way, each in graphs.items()},
        "capture, in one graph / block by block": at_least(ratio, 4, "ratio"),
    }


def _whole(unet: Module) -> Call:
    return partial(_predict, torch.compile(unet, dynamic=False, backend="eager"))


def _by_blocks(unet: Module) -> Call:
    regions = Regions(unet, UNET.compiled, backend="eager")

    def call(rows: int) -> None:
        with regions.running(frozenset()) as context, HookedModel.of(unet).running(context):
            _predict(unet, rows)

    return call


@torch.inference_mode()
def _predict(unet: Module, rows: int) -> None:
    config = unet.config
    pooled = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
    unet(
        torch.zeros(rows, 4, 32, 32),
        torch.full((rows,), 500.0),
        encoder_hidden_states=torch.zeros(rows, 77, config.cross_attention_dim),
        added_cond_kwargs={
            "text_embeds": torch.zeros(rows, pooled),
            "time_ids": torch.ones(rows, 6),
        },
        return_dict=False,
    )


def _cpu_s(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def fusing(device: str) -> dict[str, Figure]:
    """Compile both blocks, and read which kernels were made; on a GPU also time them."""
    is_cuda = device.startswith("cuda")
    width, side = (640, 64) if is_cuda else (64, 8)
    resnet = ResnetBlock(in_channels=width, temb_channels=4 * width, groups=32)
    of_resnet = (torch.randn(2, width, side, side), torch.randn(2, 4 * width))
    geglu, of_geglu = GEGLU(width, 4 * width), (torch.randn(2, side * side, width),)
    kernels = _kernels(resnet, of_resnet, device)
    both = [name for name in kernels if "group_norm" in name and "silu" in name]
    alone = [name for name in kernels if "silu" in name and name not in both]
    figures = {
        "ResNet block, kernels that norm and activate": plain(len(both), "kernels"),
        "ResNet block, kernels beside products": plain(len(kernels), "kernels"),
        "ResNet block, kernels that only activate": plain(len(alone), "kernels"),
        "GEGLU, kernels beside products": plain(len(_kernels(geglu, of_geglu, device)), "kernels"),
    }
    if is_cuda:
        for name, block, given in (("ResNet block", resnet, of_resnet), ("GEGLU", geglu, of_geglu)):
            gain = _speedup(block, given, device)
            figures[f"{name}, as it is / compiled"] = at_least(gain, 1.05, "ratio")
    return figures


@torch.inference_mode()
def _kernels(block: Module, given: tuple[Tensor, ...], device: str) -> set[str]:
    torch.compiler.reset()
    block, given = _placed(block, given, device)
    _, code = run_and_get_code(torch.compile(block, dynamic=False), *given)
    return set(re.findall(r"(?:cpp|triton_\w+?)_fused_\w+", code[0]))


@torch.inference_mode()
def _speedup(block: Module, given: tuple[Tensor, ...], device: str) -> float:
    block, given = _placed(block, given, device)
    compiled = torch.compile(block, dynamic=False)
    times: dict[Module, list[float]] = {block: [], compiled: []}
    for at in range(ROUNDS + 3):
        for each, spent in times.items():
            taken_s = _device_s(partial(each, *given))
            if at >= 3:
                spent.append(taken_s)
    return median(times[block]) / median(times[compiled])


def _device_s(call: Callable[[], object], calls: int = 20) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / calls


def _placed(
    block: Module, given: tuple[Tensor, ...], device: str
) -> tuple[Module, tuple[Tensor, ...]]:
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    block = block.eval().requires_grad_(False).to(device, dtype, memory_format=CHANNELS_LAST)
    return block, tuple(_ordered(each.to(device, dtype)) for each in given)


def _ordered(features: Tensor) -> Tensor:
    return features.contiguous(memory_format=CHANNELS_LAST) if features.ndim == 4 else features


def main(
    quick: bool = typer.Option(False, help="Nothing to leave out: it takes two minutes."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    device: str = typer.Option("cpu", help="`cuda` also times the blocks."),
) -> None:
    """Measure what compiling costs, and what it fuses. Example: `python -m bench.compiled`."""
    del quick
    torch.set_num_threads(1)
    figures = capturing() | fusing(device)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread", device)
    raise SystemExit(finish("compiled", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
