"""Training stages of a model, and what each leaves in the workspace."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from diffusers import AutoencoderKL, DiffusionPipeline, UNet2DConditionModel
from rich.progress import track
from transformers import (
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    PreTrainedModel,
)

from zoo import architecture
from zoo.assemble import ServiceCard, Tokenizers, export, read, sd_pipeline, sdxl_pipeline
from zoo.captioned import encode_captions
from zoo.couples import Coupling, read_couples, write_couples
from zoo.denoiser import DenoiserTraining, Teacher
from zoo.family import Layout, Member
from zoo.grow import deepen, prune, unlearn_text
from zoo.latents import Pool, pool_folder, read_pools, write_pools
from zoo.reading import Reading, ReadingRecipe, ReadingTraining
from zoo.recipe import DenoiserRecipe
from zoo.runner import run
from zoo.text import SdReader, SdxlReader
from zoo.tokenizer import train_tokenizers
from zoo.training import averaged
from zoo.vae import VaeRecipe, VaeTraining, quieten, set_scale

#: Scenes encoded for each level.
POOL_SIZES = {1: 4096, 2: 16384, 3: 32768, 4: 40960, 5: 40960}

#: Couples made for each level.
COUPLE_SIZES = {1: 512, 2: 1024, 3: 1024, 4: 1024, 5: 1024}

_TOKENIZERS = ("tokenizer", "tokenizer_2")
_TEXT_ENCODERS = ("text_encoder", "text_encoder_2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One training, from nothing or from a model."""

    #: What is trained.
    member: Member
    #: Where the stages leave their work.
    workspace: Path
    #: Where the finished model goes.
    output: Path
    #: A stock folder to start from: its tokenizers, autoencoder, and what else fits the layout.
    init: Path | None
    #: Whether text encoders are trained even where the initial model has some.
    reads_afresh: bool = False
    #: A stock folder whose predictions, or couples, are the target; None is the scenes.
    teacher: Path | None
    #: How the text encoders are trained.
    reading_recipe: ReadingRecipe
    #: How the denoiser is trained.
    recipe: DenoiserRecipe
    #: How the autoencoder is trained.
    vae_recipe: VaeRecipe
    #: Scenes encoded for each level.
    pool_sizes: Mapping[int, int]
    #: Couples of a teacher for each level.
    couple_sizes: Mapping[int, int]
    #: How the teacher makes them.
    coupling: Coupling
    #: Steps between checkpoints.
    save_every: int
    #: What the service is told of the model.
    card: ServiceCard


def make_tokenizers(plan: Plan) -> bool:
    """Leave both tokenizers in the workspace; SD 1.x uses the first alone."""
    made = train_tokenizers(plan.recipe.seed) if plan.init is None else _tokenizers(plan.init)
    for name, tokenizer in zip(_TOKENIZERS, made, strict=False):
        tokenizer.save_pretrained(plan.workspace / name)
    return True


def _tokenizers(folder: Path) -> Tokenizers:
    found = (folder / name for name in _TOKENIZERS)
    return [CLIPTokenizer.from_pretrained(path) for path in found if path.exists()]


def train_reader(plan: Plan) -> bool:
    """Leave text encoders that can read in the workspace: the initial model's, or new ones."""
    if plan.init is not None and not plan.reads_afresh and _layout(plan.init) is plan.member.layout:
        for name in _encoders(plan.member.layout):
            shutil.copytree(plan.init / name, plan.workspace / name, dirs_exist_ok=True)
        return True
    torch.manual_seed(plan.reading_recipe.seed)
    tokenizer = _tokenizers(plan.workspace)[0]
    reader = _new_reader(plan.member.layout, len(tokenizer))
    training = ReadingTraining(reader, tokenizer, plan.reading_recipe)
    checkpoint = plan.workspace / "reading.pt"
    if not run(training, "reading", plan.reading_recipe.steps, checkpoint, plan.save_every):
        return False
    trained = cast(Reading, training.average).reader
    for name, encoder in zip(_encoders(plan.member.layout), trained.children(), strict=True):
        cast(PreTrainedModel, encoder).save_pretrained(plan.workspace / name)
    return True


def _layout(folder: Path) -> Layout:
    return Layout.SDXL if (folder / "text_encoder_2").exists() else Layout.SD


def _encoders(layout: Layout) -> tuple[str, ...]:
    return _TEXT_ENCODERS if layout is Layout.SDXL else _TEXT_ENCODERS[:1]


def _new_reader(layout: Layout, vocabulary: int) -> SdxlReader | SdReader:
    first = architecture.text_encoder(vocabulary)
    if layout is Layout.SD:
        return SdReader(first)
    return SdxlReader(first, architecture.text_encoder_2(vocabulary))


def _reader(folder: Path) -> SdxlReader | SdReader:
    """Read the text encoders of a folder, of whatever size they are, single precision."""
    first = CLIPTextModel.from_pretrained(folder / _TEXT_ENCODERS[0], dtype=torch.float32)
    if _layout(folder) is Layout.SD:
        return SdReader(first).eval()
    second = CLIPTextModelWithProjection.from_pretrained(
        folder / _TEXT_ENCODERS[1], dtype=torch.float32
    )
    return SdxlReader(first, second).eval()


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
    vae = _vae(plan.workspace / "vae")
    checkpoint = plan.workspace / "decoder.pt"
    training = VaeTraining(vae, replace(plan.vae_recipe, is_decoder_only=True))
    is_done = run(training, "decoder", plan.vae_recipe.steps, checkpoint, plan.save_every)
    vae.save_pretrained(plan.workspace / "vae-decoder")
    return is_done


def _vae(folder: Path) -> AutoencoderKL:
    return AutoencoderKL.from_pretrained(folder)


def _pool(plan: Plan) -> Path:
    return pool_folder(plan.workspace.parent, plan.workspace / "vae")


def make_latents(plan: Plan) -> bool:
    """Leave the encoded training scenes beside the workspace, or a teacher's couples in it."""
    for _ in track(_written(plan), description="latents", total=None):
        pass
    return True


def _written(plan: Plan) -> Iterator[int]:
    if plan.member.is_distilled:
        return write_couples(
            plan.workspace / "couples", _wise(plan), plan.couple_sizes, plan.coupling
        )
    vae, tokenizer = _vae(plan.workspace / "vae").eval(), _tokenizers(plan.workspace)[0]
    return write_pools(_pool(plan), vae, tokenizer, plan.pool_sizes, plan.recipe.seed)


def _wise(plan: Plan) -> DiffusionPipeline:
    if plan.teacher is None:
        raise ValueError("a distilled model needs a teacher: name its folder with --teacher")
    return read(plan.teacher)


def _build(unet: UNet2DConditionModel) -> list[object]:
    """Give what two denoisers must share for one to start from the other."""
    fields = ("block_out_channels", "up_block_types", "cross_attention_dim")
    # A config read from a file has lists where one built in code has tuples.
    values = (unet.config[field] for field in fields)
    return [tuple(value) if isinstance(value, list) else value for value in values]


def _unet(plan: Plan) -> UNet2DConditionModel:
    """Build the denoiser: the initial model's, that made deeper or shallower, or a random one."""
    torch.manual_seed(plan.recipe.seed)
    unet = plan.member.unet()
    old = None if plan.init is None else read(plan.init).unet
    if old is None or _build(old) != _build(unet):
        return unet
    if old.config.layers_per_block == unet.config.layers_per_block:
        unet.load_state_dict(old.state_dict())
    elif old.config.layers_per_block > unet.config.layers_per_block:
        prune(old, unet)
    else:
        deepen(old, unet)
    if plan.reads_afresh:
        unlearn_text(unet)
    return unet


def _teacher(folder: Path, pools: Mapping[int, Pool]) -> Teacher:
    examples = encode_captions(pools, _reader(folder))
    return Teacher(unet=read(folder).unet.eval(), examples=examples)


def _training(plan: Plan) -> DenoiserTraining:
    reader, unet = _reader(plan.workspace), _unet(plan)
    if plan.member.is_distilled:
        couples = read_couples(plan.workspace / "couples", plan.couple_sizes, plan.coupling)
        # The couples hold the teacher's guidance: the pupil is never asked without a caption.
        recipe = replace(plan.recipe, drop=0.0)
        return DenoiserTraining(unet, encode_captions(couples, reader), recipe)
    pools = read_pools(_pool(plan), plan.pool_sizes)
    teacher = None if plan.teacher is None else _teacher(plan.teacher, pools)
    return DenoiserTraining(unet, encode_captions(pools, reader), plan.recipe, teacher)


def train_denoiser(plan: Plan) -> bool:
    """Leave the checkpoint of the denoiser in the workspace; the text encoders stay as they are."""
    training = _training(plan)
    checkpoint = plan.workspace / "denoiser.pt"
    return run(training, "denoiser", plan.recipe.steps, checkpoint, plan.save_every)


def export_model(plan: Plan) -> bool:
    """Write the averaged weights as a stock folder."""
    unet = plan.member.unet()
    unet.load_state_dict(averaged(plan.workspace / "denoiser.pt"))
    finetuned = plan.workspace / "vae-decoder"
    vae = _vae(finetuned if finetuned.exists() else plan.workspace / "vae")
    tokenizers, reader = _tokenizers(plan.workspace), _reader(plan.workspace)
    if isinstance(reader, SdReader):
        pipeline = sd_pipeline(unet, vae, reader, tokenizers)
    else:
        pipeline = sdxl_pipeline(unet, vae, reader, tokenizers)
    export(pipeline, plan.card, plan.output)
    return True
