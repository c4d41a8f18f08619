"""Train shapes-dit or shapes-hd.

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
from zoo.architecture import LATENT_SIDE
from zoo.assemble import ServiceCard, export
from zoo.dit.architecture import enlarged, transformer
from zoo.dit.assemble import sd3_pipeline
from zoo.dit.family import MEMBERS
from zoo.dit.flow import FlowRecipe, FlowTraining
from zoo.dit.text import Captions, read_captions
from zoo.latents import pool_folder, read_pools, write_pools
from zoo.runner import run
from zoo.training import averaged


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
    #: Folders of encoded scenes by scale, completed if need be.
    pools: Mapping[int, Path]
    #: Scenes of each scale and level.
    pool_sizes: Mapping[int, Mapping[int, int]]
    #: How the transformer is trained.
    recipe: FlowRecipe
    #: Steps between checkpoints.
    save_every: int
    #: What the service is told of the model.
    card: ServiceCard
    #: Side of the model's pictures, in sides of 64 pixels.
    scale: int = 1

    @property
    def checkpoint(self) -> Path:
        """Where an interrupted run goes on."""
        return self.workspace / "transformer.pt"


def smoke(plan: DitPlan) -> DitPlan:
    """Shrink the training to seconds; the model is useless, the path is the real one."""
    recipe = replace(plan.recipe, steps=4, decay_steps=2, warmup_steps=1, batch=4)
    sizes = {scale: dict.fromkeys(of, 8) for scale, of in plan.pool_sizes.items()}
    return replace(plan, recipe=recipe, pool_sizes=sizes, save_every=2)


def train(plan: DitPlan) -> bool:
    """Train and export; False if someone asked for an end before that."""
    plan.workspace.mkdir(parents=True, exist_ok=True)
    make_pools(plan)
    captions = read_captions(plan.text)
    pools = {
        scale: read_pools(plan.pools[scale], sizes) for scale, sizes in plan.pool_sizes.items()
    }
    training = FlowTraining(_transformer(plan, captions), captions, pools, plan.recipe)
    steps = plan.recipe.steps
    is_done = run(training, "transformer", steps, plan.checkpoint, plan.save_every)
    if is_done:
        export_model(plan)
    return is_done


def make_pools(plan: DitPlan) -> None:
    """Encode the scenes that the pool still lacks."""
    tokenizer = CLIPTokenizer.from_pretrained(plan.base / "tokenizer")
    vae = _vae(plan).eval()
    for scale, sizes in plan.pool_sizes.items():
        shards = write_pools(plan.pools[scale], vae, tokenizer, sizes, 0, scale)
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
    pipeline = sd3_pipeline(model.eval(), _vae(plan), captions, tokenizers, plan.scale)
    export(pipeline, plan.card, plan.output)


def _transformer(plan: DitPlan, captions: Captions) -> SD3Transformer2DModel:
    if plan.init is None:
        torch.manual_seed(plan.recipe.seed)
        return transformer(captions.context, captions.pooled)
    model = SD3Transformer2DModel.from_pretrained(plan.init / "transformer", dtype=torch.float32)
    is_smaller = model.config.sample_size < plan.scale * LATENT_SIDE
    return enlarged(model, plan.scale) if is_smaller else model


def _vae(plan: DitPlan) -> AutoencoderKL:
    return AutoencoderKL.from_pretrained(plan.base / "vae")


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(MEMBERS)}.")] = "shapes-dit",
    base: Annotated[
        Path, typer.Option(help="Stock folder that gives all but the transformer.")
    ] = Path("zoo/weights/shapes-xl"),
    init: Annotated[
        Path | None,
        typer.Option(help="Train this model on; it gives its text encoders too."),
    ] = None,
    workspace: Annotated[Path, typer.Option(help="Working files go here.")] = Path(".zoo-cache"),
    output: Annotated[Path, typer.Option(help="The model goes here.")] = Path("zoo/weights"),
    seed: Annotated[int, typer.Option(help="Decides weights and noise.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps, if not as planned.")] = None,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    is_smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds instead of an hour, to try the path.")
    ] = False,
) -> None:
    """Train a transformer and write its stock folder; run again to resume.

    Example: python -m zoo.dit.train shapes-hd --init zoo/weights/shapes-hd --steps 4000
    """
    configure("info", is_json=False)
    torch.set_num_threads(threads)
    if name not in MEMBERS:
        raise typer.BadParameter(f"no model {name!r}; one of {', '.join(MEMBERS)}")
    member = MEMBERS[name]
    init = init or member.init
    plan = DitPlan(
        workspace=workspace / name,
        output=output / name,
        base=base,
        text=init or base,
        init=init,
        pools={scale: pool_folder(workspace, base / "vae", scale) for scale in member.pool_sizes},
        pool_sizes=member.pool_sizes,
        recipe=member.recipe.lasting(steps or member.recipe.steps, seed),
        save_every=100,
        card=member.card,
        scale=member.scale,
    )
    is_done = train(smoke(plan) if is_smoke else plan)
    Console(stderr=True).print("finished" if is_done else "stopped; run again to resume")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
