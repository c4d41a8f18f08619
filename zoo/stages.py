"""What does each stage of training a model do, and what does it leave behind?"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from rich.progress import track
from transformers import CLIPTokenizer

from zoo import architecture
from zoo.assemble import Parts, ServiceCard, export, read_parts
from zoo.denoiser import Networks, Training
from zoo.latents import read_pools, write_pools
from zoo.recipe import Recipe
from zoo.runner import run
from zoo.text import TextEncoders
from zoo.tokenizer import train_tokenizers
from zoo.vae import VaeRecipe, VaeTraining, quieten, set_scale

#: Scenes encoded for each level.
POOL_SIZES = {1: 8192, 2: 20480, 3: 20480, 4: 10240, 5: 8192}

_TOKENIZERS = ("tokenizer", "tokenizer_2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One training, from nothing or from a model."""

    #: Where the stages leave their work.
    workspace: Path
    #: Where the finished model goes.
    output: Path
    #: A stock folder to start from; its tokenizers and autoencoder are kept.
    init: Path | None
    #: How the denoiser is trained.
    recipe: Recipe
    #: How the autoencoder is trained.
    vae_recipe: VaeRecipe
    #: Scenes encoded for each level.
    pool_sizes: Mapping[int, int]
    #: Steps between checkpoints.
    save_every: int
    #: What the service is told of the model.
    card: ServiceCard


def make_tokenizers(plan: Plan) -> bool:
    """Leave both tokenizers in the workspace."""
    for name, tokenizer in zip(_TOKENIZERS, _tokenizers(plan), strict=True):
        tokenizer.save_pretrained(plan.workspace / name)
    return True


def _tokenizers(plan: Plan) -> tuple[CLIPTokenizer, CLIPTokenizer]:
    if plan.init is None:
        return train_tokenizers(plan.recipe.seed)
    first, second = (CLIPTokenizer.from_pretrained(plan.init / name) for name in _TOKENIZERS)
    return first, second


def make_vae(plan: Plan) -> bool:
    """Leave the autoencoder in the workspace: the initial model's, or a new one."""
    folder = plan.workspace / "vae"
    if plan.init is not None:
        shutil.copytree(plan.init / "vae", folder, dirs_exist_ok=True)
        return True
    torch.manual_seed(plan.vae_recipe.seed)
    vae = architecture.vae()
    quieten(vae)
    training = VaeTraining(vae, plan.vae_recipe)
    checkpoint = plan.workspace / "vae.pt"
    is_done = run(training, "vae", plan.vae_recipe.steps, checkpoint, plan.save_every)
    set_scale(vae)
    vae.save_pretrained(folder)
    return is_done


def finetune_decoder(plan: Plan) -> bool:
    """Train the decoder on while the latents stay as they are; leave it as the autoencoder."""
    vae = _vae(plan)
    checkpoint = plan.workspace / "decoder.pt"
    training = VaeTraining(vae, replace(plan.vae_recipe, is_decoder_only=True))
    is_done = run(training, "decoder", plan.vae_recipe.steps, checkpoint, plan.save_every)
    vae.save_pretrained(plan.workspace / "vae-decoder")
    return is_done


def _vae(plan: Plan) -> AutoencoderKL:
    return AutoencoderKL.from_pretrained(plan.workspace / "vae", torch_dtype=torch.float32)


def make_latents(plan: Plan) -> bool:
    """Leave the encoded training scenes in the workspace."""
    vae, tokenizer = _vae(plan).eval(), CLIPTokenizer.from_pretrained(plan.workspace / "tokenizer")
    shards = write_pools(
        plan.workspace / "latents", vae, tokenizer, plan.pool_sizes, plan.recipe.seed
    )
    for _ in track(shards, description="latents", total=None):
        pass
    return True


def _networks(plan: Plan) -> Networks:
    if plan.init is not None:
        parts = read_parts(plan.init)
        return Networks(parts.unet, TextEncoders(parts.text_encoder, parts.text_encoder_2))
    vocabulary = len(CLIPTokenizer.from_pretrained(plan.workspace / "tokenizer"))
    torch.manual_seed(plan.recipe.seed)
    first = architecture.text_encoder(vocabulary)
    second = architecture.text_encoder_2(vocabulary)
    return Networks(architecture.unet(), TextEncoders(first, second))


def train_denoiser(plan: Plan) -> bool:
    """Leave the checkpoint of the denoiser and the text encoders in the workspace."""
    pools = read_pools(plan.workspace / "latents", plan.pool_sizes)
    training = Training(_networks(plan), pools, plan.recipe)
    checkpoint = plan.workspace / "denoiser.pt"
    return run(training, "denoiser", plan.recipe.steps, checkpoint, plan.save_every)


def export_model(plan: Plan) -> bool:
    """Write the averaged weights as a stock folder."""
    networks = _networks(plan)
    state = torch.load(plan.workspace / "denoiser.pt", weights_only=True)
    networks.load_state_dict(state["average"])
    finetuned = plan.workspace / "vae-decoder"
    vae = AutoencoderKL.from_pretrained(
        finetuned if finetuned.exists() else plan.workspace / "vae", torch_dtype=torch.float32
    )
    first, second = (CLIPTokenizer.from_pretrained(plan.workspace / name) for name in _TOKENIZERS)
    parts = Parts(
        unet=networks.unet,
        text_encoder=networks.text.first,
        text_encoder_2=networks.text.second,
        vae=vae,
        tokenizer=first,
        tokenizer_2=second,
    )
    export(parts, plan.card, plan.output)
    return True
