"""Train the autoencoder."""

from dataclasses import dataclass
from random import Random

import torch
from diffusers import AutoencoderKL
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor

from zoo.architecture import IMAGE_SIDE
from zoo.latents import pixels
from zoo.scenes import LEVELS, Scene, draw, training_scene
from zoo.training import Recipe, Training

#: Training scenes of the autoencoder have indices below this, at every level.
_SCENES = 1_000_000

#: Posterior log-variance at the start: a variance of one would drown the latents.
_FIRST_LOG_VARIANCE = -5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeRecipe(Recipe):
    """The settings of one autoencoder run; `batch` counts crops."""

    steps: int = 4000
    decay_steps: int = 2400
    warmup_steps: int = 40
    batch: int = 32
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    average: float = 0.0
    #: Side of a crop: a quarter of the picture costs a quarter.
    crop: int = 32
    #: Share of the run after which whole pictures are used.
    whole_from: float = 0.85
    #: Whole pictures per step.
    whole_batch: int = 12
    #: Weight of the KL term; ten times as much makes the latents lose their colours.
    kl: float = 3e-4
    #: Whether the latents stay as they are and only the decoder learns.
    is_decoder_only: bool = False


def quieten(vae: AutoencoderKL) -> None:
    """Start with a narrow posterior."""
    with torch.no_grad():
        log_variance = vae.config.latent_channels
        vae.quant_conv.bias[log_variance:] = _FIRST_LOG_VARIANCE
        vae.quant_conv.weight[log_variance:] *= 0.1


class VaeTraining(Training):
    """One autoencoder run."""

    def __init__(self, vae: AutoencoderKL, recipe: VaeRecipe) -> None:
        vae.set_attn_processor(AttnProcessor())
        if recipe.is_decoder_only:
            vae.encoder.requires_grad_(False)
            vae.quant_conv.requires_grad_(False)
        super().__init__(vae, recipe)
        self._vae = vae
        self._settings = recipe

    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the error of the pictures and the spread of the latents."""
        images = self._images(Random(f"autoencoder/{generator.initial_seed()}"))
        with torch.autocast("cpu", torch.bfloat16):
            posterior = self._vae.encode(images).latent_dist
            decoded = self._vae.decode(posterior.sample(generator)).sample
        mean, log_variance = posterior.mean.float(), posterior.logvar.float()
        spread: Tensor = mean**2 + log_variance.exp() - log_variance
        return _difference(decoded.float(), images) + self._settings.kl * 0.5 * (spread - 1).mean()

    def _images(self, rng: Random) -> Tensor:
        """Draw scenes, whole late in the run and cropped on the latent grid before.

        Shapes: [B, 3, H, W].
        """
        is_whole = self.step >= self._settings.whole_from * self._settings.steps
        size = self._settings.whole_batch if is_whole else self._settings.batch
        images = pixels([draw(self._scene(rng)) for _ in range(size)])
        side = IMAGE_SIDE if is_whole else self._settings.crop
        top, left = (4 * rng.randint(0, (IMAGE_SIDE - side) // 4) for _ in range(2))
        return images[..., top : top + side, left : left + side]

    def _scene(self, rng: Random) -> Scene:
        return training_scene(rng.choice(LEVELS), self._settings.seed, rng.randrange(_SCENES))


def _difference(decoded: Tensor, images: Tensor) -> Tensor:
    """Add up absolute, squared and edge errors."""
    error = decoded - images
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    return error.abs().mean() + (error**2).mean() + 0.25 * edges


@torch.no_grad()
def set_scale(vae: AutoencoderKL, count: int = 64) -> None:
    """Set the scaling factor so that scaled latents have unit variance."""
    scenes = [training_scene(level, 0, index) for level in LEVELS for index in range(count)]
    latents = vae.encode(pixels([draw(scene) for scene in scenes])).latent_dist.mean
    vae.register_to_config(scaling_factor=round(1 / latents.std().item(), 5))
