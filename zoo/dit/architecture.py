"""Architecture, initialisation and sampler of the diffusion transformer."""

from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel
from torch import nn

from zoo.architecture import LATENT_CHANNELS, LATENT_SIDE
from zoo.dit.positions import TOKENS, rescale

#: Schedules are shifted towards noise, where shapes and places are decided, as in SD3 (§5.3.2).
SHIFT = 3.0
#: Steps of the noise schedule; a time t in [0, 1] is told to the model as t * STEPS.
STEPS = 1000

_PATCH = 2
_LAYERS = 6
_HEADS = 4
_HEAD_WIDTH = 32
#: Position embeddings reach twice the side that is trained.
_LARGEST_SIDE = 2 * LATENT_SIDE // _PATCH


def transformer(context: int, pooled: int) -> SD3Transformer2DModel:
    """Build the denoiser, 3.5 M parameters, for captions of so many channels.

    Raises: nothing; weights come from the global generator of torch.
    """
    model = SD3Transformer2DModel(
        sample_size=LATENT_SIDE,
        patch_size=_PATCH,
        in_channels=LATENT_CHANNELS,
        out_channels=LATENT_CHANNELS,
        num_layers=_LAYERS,
        num_attention_heads=_HEADS,
        attention_head_dim=_HEAD_WIDTH,
        joint_attention_dim=context,
        caption_projection_dim=_HEADS * _HEAD_WIDTH,
        pooled_projection_dim=pooled,
        pos_embed_max_size=_LARGEST_SIDE,
        qk_norm="rms_norm",
    )
    _initialise(model)
    return model


def enlarged(model: SD3Transformer2DModel, scale: int) -> SD3Transformer2DModel:
    """Make the same model for pictures of so many sides of 64 pixels.

    The picture keeps its place: embeddings lie closer by as much as there are more tokens.
    """
    config = dict(model.config) | {
        "sample_size": scale * LATENT_SIDE,
        "pos_embed_max_size": scale * TOKENS,
    }
    larger: SD3Transformer2DModel = SD3Transformer2DModel.from_config(config)
    weights = model.state_dict()
    del weights["pos_embed.pos_embed"]
    larger.load_state_dict(weights, strict=False)
    rescale(larger, scale * TOKENS)
    return larger


def _initialise(model: SD3Transformer2DModel) -> None:
    """Start every block as the identity (adaLN-Zero, Peebles and Xie 2023, §3.2)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    patches = model.pos_embed.proj
    nn.init.xavier_uniform_(patches.weight.view(patches.weight.shape[0], -1))
    nn.init.zeros_(patches.bias)
    closed = [model.proj_out, model.norm_out.linear]
    for block in model.transformer_blocks:
        closed += [block.norm1.linear, block.norm1_context.linear]
    for linear in closed:
        nn.init.zeros_(linear.weight)


def scheduler(scale: int = 1) -> FlowMatchEulerDiscreteScheduler:
    """Build the sampler for pictures of so many sides of 64 pixels.

    More tokens say the same louder: the shift grows as the root of their number (§5.3.2).
    """
    return FlowMatchEulerDiscreteScheduler(num_train_timesteps=STEPS, shift=SHIFT * scale)
