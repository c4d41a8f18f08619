"""Write the configurations that a single-file checkpoint does not carry, as stock folders do.

Those of SD 1.5, SD 2.1 and SDXL are theirs, and all three read prompts by CLIP's vocabulary, whose
merges are OpenAI's (https://github.com/openai/CLIP, MIT). No download is needed.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

MERGES = Path(__file__).with_name("clip_merges.txt.gz")
BEGIN, END = "<|startoftext|>", "<|endoftext|>"

_NOISE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
    "clip_sample": False,
}
_UNET = {
    "_class_name": "UNet2DConditionModel",
    "act_fn": "silu",
    "center_input_sample": False,
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "mid_block_scale_factor": 1,
    "norm_eps": 1e-5,
    "norm_num_groups": 32,
    "out_channels": 4,
}
_SD_UNET = _UNET | {
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
}
_VAE = {
    "_class_name": "AutoencoderKL",
    "act_fn": "silu",
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "in_channels": 3,
    "out_channels": 3,
    "latent_channels": 4,
    "layers_per_block": 2,
    "norm_num_groups": 32,
}
_CLIP = {
    "architectures": ["CLIPTextModel"],
    "model_type": "clip_text_model",
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "hidden_act": "quick_gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "projection_dim": 768,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 77,
    "vocab_size": 49408,
}
_SD_PARTS = {
    "scheduler": ["diffusers", "PNDMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}
_SD_INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "feature_extractor": [None, None],
    "safety_checker": [None, None],
    "requires_safety_checker": False,
    **_SD_PARTS,
}

#: Kind of checkpoint -> part -> its configuration; the index stands under the empty name.
CONFIGS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "sd15": {
        "": _SD_INDEX,
        "scheduler": _NOISE | {"_class_name": "PNDMScheduler"},
        "text_encoder": _CLIP,
        "unet": _SD_UNET | {"attention_head_dim": 8, "cross_attention_dim": 768, "sample_size": 64},
        "vae": _VAE | {"sample_size": 512, "scaling_factor": 0.18215},
    },
    "sd2": {
        "": _SD_INDEX | {"scheduler": ["diffusers", "DDIMScheduler"]},
        "scheduler": _NOISE | {"_class_name": "DDIMScheduler"},
        "text_encoder": _CLIP
        | {
            "hidden_act": "gelu",
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_attention_heads": 16,
            "num_hidden_layers": 23,
            "projection_dim": 512,
        },
        "unet": _SD_UNET
        | {
            "attention_head_dim": [5, 10, 20, 20],
            "cross_attention_dim": 1024,
            "sample_size": 64,
            "use_linear_projection": True,
        },
        "vae": _VAE | {"sample_size": 768, "scaling_factor": 0.18215},
    },
    "sdxl": {
        "": {
            "_class_name": "StableDiffusionXLPipeline",
            "force_zeros_for_empty_prompt": True,
            "feature_extractor": [None, None],
            "image_encoder": [None, None],
            **_SD_PARTS,
            "scheduler": ["diffusers", "EulerDiscreteScheduler"],
            "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
            "tokenizer_2": ["transformers", "CLIPTokenizer"],
        },
        "scheduler": _NOISE
        | {
            "_class_name": "EulerDiscreteScheduler",
            "interpolation_type": "linear",
            "prediction_type": "epsilon",
            "timestep_spacing": "leading",
            "use_karras_sigmas": False,
        },
        "text_encoder": _CLIP,
        "text_encoder_2": _CLIP
        | {
            "architectures": ["CLIPTextModelWithProjection"],
            "hidden_act": "gelu",
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_attention_heads": 20,
            "num_hidden_layers": 32,
            "projection_dim": 1280,
        },
        "unet": _UNET
        | {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 256,
            "attention_head_dim": [5, 10, 20],
            "block_out_channels": [320, 640, 1280],
            "cross_attention_dim": 2048,
            "down_block_types": ["DownBlock2D"] + ["CrossAttnDownBlock2D"] * 2,
            "projection_class_embeddings_input_dim": 2816,
            "sample_size": 128,
            "transformer_layers_per_block": [1, 2, 10],
            "up_block_types": ["CrossAttnUpBlock2D"] * 2 + ["UpBlock2D"],
            "use_linear_projection": True,
        },
        "vae": _VAE | {"sample_size": 1024, "scaling_factor": 0.13025, "force_upcast": True},
    },
}
#: What CLIP's tokenizers pad with: SD 2 and the second of SDXL pad with an exclamation mark.
_PADS = {"sd15": {"tokenizer": END}, "sd2": {"tokenizer": "!"}}
_PADS["sdxl"] = {"tokenizer": END, "tokenizer_2": "!"}


def write_configs(kind: str, folder: Path) -> None:
    """Write a stock folder without weights for one kind of checkpoint."""
    for part, config in CONFIGS[kind].items():
        name = "scheduler_config.json" if part == "scheduler" else "config.json"
        _write(folder / part / (name if part else "model_index.json"), config)
    for part, pad in _PADS[kind].items():
        write_tokenizer(folder / part, pad)


def write_tokenizer(folder: Path, pad: str) -> None:
    """Write CLIP's tokenizer: its vocabulary follows from its merges."""
    merges = gzip.decompress(MERGES.read_bytes()).decode()
    _write(folder / "vocab.json", {word: at for at, word in enumerate(_vocabulary(merges))})
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    config = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": 77,
        "add_prefix_space": False,
        "do_lower_case": True,
        "errors": "replace",
        "bos_token": BEGIN,
        "eos_token": END,
        "unk_token": END,
        "pad_token": pad,
    }
    _write(folder / "tokenizer_config.json", config)


def _vocabulary(merges: str) -> list[str]:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + at) for at in range(len(others))]
    joined = ["".join(line.split()) for line in merges.splitlines()]
    return [*letters, *(letter + "</w>" for letter in letters), *joined, BEGIN, END]


def _write(path: Path, value: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
