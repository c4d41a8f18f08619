"""Train shapes-dit.

`python -m zoo.dit.train --help`
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from diffusers import AutoencoderKL, SD3Transformer2DModel
from rich.console import Console
from rich.progress import track
from transformers import CLIPTokenizer

from core.log import configure
from zoo.assemble import ServiceCard, export
from zoo.dit.architecture import transformer
from zoo.dit.assemble import sd3_pipeline
from zoo.dit.flow import FlowRecipe, FlowTraining
from zoo.dit.text import Captions, read_captions
from zoo.latents import pool_folder, read_pools, write_pools
from zoo.runner import run
from zoo.training import averaged

#: Scenes encoded for each level.
POOL_SIZES = {1: 4096, 2: 16384, 3: 32768, 4: 16384, 5: 16384}

_RECIPE = FlowRecipe()


@dataclass(frozen=True, slots=True, kw_only=True)
class DitPlan:
    """One training of the transformer, from nothing or from a model."""

    #: The checkpoint goes here.
    workspace: Path
    #: The finished model goes here.
    output: Path
    #: A stock folder whose autoencoder and tokenizers are taken over.
    base: Path
    #: A folder whose text encoders are taken over.
    text: Path
    #: A stock folder whose transformer is trained on, if any.
    init: Path | None
    #: Encoded scenes, completed if need be.
    pool: Path
    #: Scenes of each level.
    pool_sizes: Mapping[int, int]
    #: How the transformer is trained.
    recipe: FlowRecipe
    #: Steps between checkpoints.
    save_every: int
    #: What the service is told of the model.
    card: ServiceCard

    @property
    def checkpoint(self) -> Path:
        """Where an interrupted run goes on."""
        return self.workspace / "transformer.pt"


def smoke(plan: DitPlan) -> DitPlan:
    """Shrink the training to seconds; the model is useless, the path is the real one."""
    recipe = replace(plan.recipe, steps=4, decay_steps=2, warmup_steps=1, batch=4)
    return replace(plan, recipe=recipe, pool_sizes=dict.fromkeys(plan.pool_sizes, 8), save_every=2)


def train(plan: DitPlan) -> bool:
    """Train and export; False if someone asked for an end before that."""
    plan.workspace.mkdir(parents=True, exist_ok=True)
    make_pools(plan)
    captions = read_captions(plan.text)
    pools = read_pools(plan.pool, plan.pool_sizes)
    training = FlowTraining(_transformer(plan, captions), captions, pools, plan.recipe)
    steps = plan.recipe.steps
    is_done = run(training, "transformer", steps, plan.checkpoint, plan.save_every)
    if is_done:
        export_model(plan)
    return is_done


def make_pools(plan: DitPlan) -> None:
    """Encode the scenes that the pool still lacks."""
    tokenizer = CLIPTokenizer.from_pretrained(plan.base / "tokenizer")
    shards = write_pools(plan.pool, _vae(plan).eval(), tokenizer, plan.pool_sizes, 0)
    for _ in track(shards, description="latents", total=None):
        pass


def export_model(plan: DitPlan) -> None:
    """Write the averaged weights of the checkpoint as a stock folder."""
    captions = read_captions(plan.text)
    model = _transformer(plan, captions)
    model.load_state_dict(averaged(plan.checkpoint))
    tokenizers = [
        CLIPTokenizer.from_pretrained(plan.base / name) for name in ("tokenizer", "tokenizer_2")
    ]
    pipeline = sd3_pipeline(model.eval(), _vae(plan), captions, tokenizers)
    export(pipeline, plan.card, plan.output)


def _transformer(plan: DitPlan, captions: Captions) -> SD3Transformer2DModel:
    if plan.init is not None:
        return SD3Transformer2DModel.from_pretrained(plan.init / "transformer")
    torch.manual_seed(plan.recipe.seed)
    return transformer(captions.context, captions.pooled)


def _vae(plan: DitPlan) -> AutoencoderKL:
    return AutoencoderKL.from_pretrained(plan.base / "vae")


def main(
    name: Annotated[str, typer.Option(help="Name of the model.")] = "shapes-dit",
    base: Annotated[
        Path, typer.Option(help="Stock folder that gives all but the transformer.")
    ] = Path("zoo/weights/shapes-xl"),
    init: Annotated[
        Path | None, typer.Option(help="Train this model on; it gives its text encoders too.")
    ] = None,
    workspace: Annotated[Path, typer.Option(help="Working files go here.")] = Path(".zoo-cache"),
    output: Annotated[Path, typer.Option(help="The model goes here.")] = Path("zoo/weights"),
    seed: Annotated[int, typer.Option(help="Decides weights and noise.")] = 0,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = _RECIPE.steps,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    is_smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds instead of an hour, to try the path.")
    ] = False,
) -> None:
    """Train the transformer and write its stock folder; run again to resume.

    Example: python -m zoo.dit.train --init zoo/weights/shapes-dit --steps 8000
    """
    configure("info", is_json=False)
    torch.set_num_threads(threads)
    plan = DitPlan(
        workspace=workspace / name,
        output=output / name,
        base=base,
        text=init or base,
        init=init,
        pool=pool_folder(workspace, base / "vae"),
        pool_sizes=POOL_SIZES,
        recipe=FlowRecipe(seed=seed, steps=steps, decay_steps=steps // 2),
        save_every=100,
        card=ServiceCard(name=name, family="sd3"),
    )
    is_done = train(smoke(plan) if is_smoke else plan)
    Console(stderr=True).print("finished" if is_done else "stopped; run again to resume")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
