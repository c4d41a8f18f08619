"""Train style LoRAs.

`python -m zoo.lora.train --all --base zoo/weights/shapes-xl`
"""

import hashlib
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from core.log import configure
from zoo.lora.card import Card, digest, model_digest
from zoo.lora.files import read, save
from zoo.lora.inject import inject
from zoo.lora.pool import scenes, styled_scenes
from zoo.lora.stock import open_base
from zoo.lora.styles import STYLES, Style
from zoo.lora.training import LoraRecipe, LoraTraining
from zoo.runner import run
from zoo.scenes import draw

_SAVE_EVERY = 100
#: Pictures that tell whether a style still is what a checkpoint learnt.
_WITNESSES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraPlan:
    """One training."""

    #: What is learnt.
    style: Style
    #: The stock folder of the model it is for.
    base: Path
    #: A file of the same style and shape to start from.
    init: Path | None
    #: How it is trained.
    recipe: LoraRecipe
    #: Latents and checkpoints go here, by style and by all that decides them.
    workspace: Path
    #: NAME.safetensors and its card go here.
    output: Path

    def folder(self) -> Path:
        """Give the folder of this run; another base, style or recipe has another one."""
        recipe = replace(self.recipe, steps=0, decay_steps=0)
        pictures = [draw(scene) for scene in scenes(_WITNESSES, recipe.seed)]
        looks = b"".join(self.style.restyle(picture).tobytes() for picture in pictures)
        size = (self.style.rank, self.style.has_convolutions, self.style.has_text)
        start = digest([self.init]) if self.init else None
        told = repr((recipe, size, self.style.alpha, model_digest(self.base), start)).encode()
        return self.workspace / self.style.name / hashlib.sha256(told + looks).hexdigest()[:16]


def recipe_for(style: Style, seed: int) -> LoraRecipe:
    """Give the settings of a style; the rate falls over the last half."""
    return LoraRecipe(seed=seed, steps=style.steps, decay_steps=style.steps // 2)


def smoke(plan: LoraPlan) -> LoraPlan:
    """Shrink a training to a second; the file is useless, the path is the real one."""
    recipe = replace(plan.recipe, steps=2, decay_steps=1, batch=2, scenes=8)
    return replace(plan, recipe=recipe)


def train(plan: LoraPlan) -> bool:
    """Train a LoRA and write its file and card; False if stopped before the end."""
    start = time.process_time()
    folder = plan.folder()
    folder.mkdir(parents=True, exist_ok=True)
    training = _training(plan, folder)
    is_done = run(training, plan.style.name, plan.recipe.steps, folder / "lora.pt", _SAVE_EVERY)
    seconds = _add_seconds(folder / "seconds.txt", time.process_time() - start)
    if is_done:
        _export(plan, training, seconds)
    return is_done


def _training(plan: LoraPlan, folder: Path) -> LoraTraining:
    pipeline = open_base(plan.base)
    weights = inject(pipeline, plan.style, plan.recipe.seed)
    if plan.init:
        stored = read(plan.init, weights, pipeline.unet.config.layers_per_block)
        for name, weight in weights.items():
            weight.data.copy_(stored[name])
    examples = styled_scenes(
        pipeline.vae,
        plan.style,
        plan.recipe.scenes,
        plan.recipe.seed,
        folder / "latents.safetensors",
    )
    return LoraTraining(pipeline, weights, examples, plan.recipe)


def _add_seconds(path: Path, seconds: float) -> float:
    """Add up the CPU time of a run over its interruptions."""
    total = seconds + (float(path.read_text()) if path.exists() else 0.0)
    path.write_text(f"{total:.1f}\n")
    return total


def _export(plan: LoraPlan, training: LoraTraining, seconds: float) -> None:
    style, weights = plan.style, training.averaged_weights()
    save(plan.output / f"{style.name}.safetensors", weights, style, training.layers_per_block)
    Card(
        name=style.name,
        form=style.form,
        trigger=None,
        base=plan.base.name,
        base_digest=model_digest(plan.base),
        rank=style.rank,
        alpha=style.alpha,
        has_convolutions=style.has_convolutions,
        has_text=style.has_text,
        parameters=sum(weight.numel() for weight in weights.values()),
        recipe=asdict(plan.recipe),
        cpu_minutes=round(seconds / 60, 2),
    ).write(plan.output / f"{style.name}.json")


def main(
    base: Annotated[Path, typer.Option(help="The stock folder of the model they are for.")],
    style: Annotated[
        list[str] | None, typer.Option(help="Train this style; repeat for several.")
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Train every style.")] = False,
    init: Annotated[Path | None, typer.Option(help="Start a single style from this file.")] = None,
    workspace: Annotated[Path, typer.Option(help="Latents and checkpoints go here.")] = Path(
        ".zoo-cache/loras"
    ),
    output: Annotated[Path, typer.Option(help="The files go here.")] = Path("zoo/adapters/loras"),
    steps: Annotated[int | None, typer.Option(help="Steps, if not the style's own.")] = None,
    seed: Annotated[int, typer.Option(help="Decides weights, scenes and noise.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    is_smoke: Annotated[
        bool, typer.Option("--smoke", help="A second a style, to try the path.")
    ] = False,
) -> None:
    """Train style LoRAs; run again to resume.

    Example: python -m zoo.lora.train --all --base zoo/weights/shapes-xl
    """
    names = list(STYLES) if is_all else style or []
    if not names or not STYLES.keys() >= set(names):
        raise typer.BadParameter(f"--all, or --style with one of {', '.join(STYLES)}")
    if init and len(names) > 1:
        raise typer.BadParameter("--init starts one style, not several")
    configure("info", is_json=False)
    torch.set_num_threads(threads)
    console = Console(stderr=True)
    for name in names:
        chosen = replace(STYLES[name], steps=steps or STYLES[name].steps)
        plan = LoraPlan(
            style=chosen,
            base=base,
            init=init,
            recipe=recipe_for(chosen, seed),
            workspace=workspace,
            output=output,
        )
        if not train(smoke(plan) if is_smoke else plan):
            console.print("stopped; run again to resume")
            return
        console.print(f"{name}: finished")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
