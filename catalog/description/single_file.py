"""Recognise a single-file checkpoint by the names of its tensors: family, parts, what it lacks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.description.distilled import kind_of_names
from catalog.description.pipelines import check_channels
from catalog.description.tensors import Tensor, Tensors, read_tensors
from core.errors import ModelRefused

#: Endings of files that are pickles, which can run code.
PICKLES = {".ckpt", ".pt", ".pth", ".bin"}

_LDM = "model.diffusion_model."
_FIRST = f"{_LDM}input_blocks.0.0.weight"
_CROSS = "attn2.to_k.weight"
#: Prefixes of the tensors of each part, by family.
_PARTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sd": {
        "unet": (_LDM,),
        "vae": ("first_stage_model.",),
        "text_encoder": ("cond_stage_model.",),
    },
    "sdxl": {
        "unet": (_LDM,),
        "vae": ("first_stage_model.",),
        "text_encoder": ("conditioner.embedders.0.",),
        "text_encoder_2": ("conditioner.embedders.1.",),
    },
    "sd3": {
        "transformer": (f"{_LDM}joint_blocks.", "joint_blocks."),
        "vae": ("first_stage_model.",),
        "text_encoder": ("text_encoders.clip_l.",),
        "text_encoder_2": ("text_encoders.clip_g.",),
        "text_encoder_3": ("text_encoders.t5xxl.",),
    },
    "flux": {
        "transformer": (f"{_LDM}double_blocks.", "double_blocks."),
        "vae": ("first_stage_model.", "vae."),
        "text_encoder": ("text_encoders.clip_l.",),
        "text_encoder_2": ("text_encoders.t5xxl.",),
    },
}
#: Width of what a UNet attends to -> which one it is.
_WIDTHS = {768: "sd15", 1024: "sd2", 2048: "sdxl"}
#: Kinds whose configurations ship with the project; the others need a stock folder beside them.
SHIPPED = ("sd15", "sd2", "sdxl")
#: What metadata call a kind of prediction (https://github.com/Stability-AI/ModelSpec) -> diffusers.
_PREDICTIONS = {"v": "v_prediction", "epsilon": "epsilon"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a single file holds."""

    family: str
    kind: str  #: of its configurations: `sd15`, `sd2`, `sdxl`, `sd3` or `flux`
    parts: tuple[str, ...]  #: parts of the pipeline that are in the file
    lacks: tuple[str, ...]  #: and those that are not
    distilled: str | None  #: kind of few-step model, by its name
    prediction: str | None  #: of its UNet, as diffusers calls what the file states; None: nothing
    predicts_velocity: bool  #: as it states, else as files of its kind and name do
    is_zero_snr: bool  #: as it states
    tensors: Tensors

    @property
    def needs_base(self) -> bool:
        """Whether it needs a stock folder of its family for what the file does not have."""
        return self.kind not in SHIPPED or bool(self.lacks)


def recognise(file: Path) -> Checkpoint:
    """Recognise a checkpoint.

    Raises:
        ModelRefused: it is none that can be served; says what it is, and what would help.
    """
    if file.suffix.lower() in PICKLES:
        raise ModelRefused(_pickled(file))
    if file.suffix.lower() != ".safetensors":
        raise ModelRefused(f"{file.name}: must be a .safetensors file, or a folder")
    tensors = read_tensors([file])
    names = tensors.by_name
    _refuse_formats(file, names)
    family, kind = _family(file, names)
    parts = {part: any(n.startswith(p) for n in names) for part, p in _PARTS[family].items()}
    prediction = _prediction(tensors) if kind in SHIPPED else None
    by_kind = "v_prediction" if kind == "sd2" and not _is_base(file) else "epsilon"
    return Checkpoint(
        family=family,
        kind=kind,
        parts=tuple(part for part, is_there in parts.items() if is_there),
        lacks=tuple(part for part, is_there in parts.items() if not is_there and part != _T5),
        distilled=kind_of_names((file.stem, tensors.metadata.get("modelspec.title", ""))),
        prediction=prediction,
        predicts_velocity=(prediction or by_kind) == "v_prediction",
        is_zero_snr=kind in SHIPPED and "ztsnr" in names,
        tensors=tensors,
    )


#: SD 3 does without it; nobody else has a third.
_T5 = "text_encoder_3"


def _prediction(tensors: Tensors) -> str | None:
    """Read what a file states that its UNet predicts: by a mark of its own, or in its metadata."""
    if "v_pred" in tensors.by_name:
        return "v_prediction"
    stated = tensors.metadata.get("modelspec.prediction_type", "")
    return _PREDICTIONS.get(stated.strip().lower())


def _is_base(file: Path) -> bool:
    """Tell SD 2's 512 pixels and noise from its 768 and velocity, which weights do not say."""
    return "base" in file.stem.lower() or "512" in file.stem


def _family(file: Path, names: Mapping[str, Tensor]) -> tuple[str, str]:
    """Name the family, and the kind of its configurations."""
    if _FIRST in names:
        return _unet(names)
    for prefix in (_LDM, ""):
        if f"{prefix}joint_blocks.0.context_block.adaLN_modulation.1.bias" in names:
            return "sd3", "sd3"
        if f"{prefix}double_blocks.0.img_attn.norm.key_norm.scale" in names:
            ends = [names.get(f"{prefix}{end}.weight") for end in ("img_in", "final_layer.linear")]
            if ends[0] and ends[1]:
                check_channels("transformer", ends[0].shape[1], ends[1].shape[0])
            return "flux", "flux"
    raise ModelRefused(f"{file.name}: {_what_else(names)}")


def _unet(names: Mapping[str, Tensor]) -> tuple[str, str]:
    if "edm_mean" in names:
        raise ModelRefused("its noise levels are EDM's: add a model trained for 1000 steps")
    if any(name.startswith("conditioner.embedders.0.model.") for name in names):
        raise ModelRefused(
            "a refiner, which goes on from the latents of another model: not served; add the base "
            "model that it goes with"
        )
    check_channels("unet", names[_FIRST].shape[1], 4)
    widths = {tensor.shape[-1] for name, tensor in names.items() if name.endswith(_CROSS)}
    if any(name.startswith("conditioner.embedders.1.") for name in names):
        return "sdxl", "sdxl"
    if any(name.startswith("cond_stage_model.model.") for name in names):
        return "sd", "sd2"
    if any(name.startswith("cond_stage_model.") for name in names):
        return "sd", "sd15"
    kind = _WIDTHS.get(min(widths, default=0), "sd15")
    return ("sdxl" if kind == "sdxl" else "sd"), kind


def _refuse_formats(file: Path, names: Mapping[str, Tensor]) -> None:
    """Refuse numbers that are not what they are stored as."""
    if any("absmax" in name or "quant_state" in name for name in names):
        raise ModelRefused(f"{file.name}: quantised by bitsandbytes; add the file in 16 bits")
    if any(name.endswith((".scale_weight", "scaled_fp8", ".weight_scale")) for name in names):
        raise ModelRefused(
            f"{file.name}: 8-bit numbers with scales of their own, which diffusers does not read; "
            "add the file in 16 bits, or in plain fp8"
        )


def _what_else(names: Mapping[str, Tensor]) -> str:
    """Say what a file is that is no checkpoint."""
    if any(".lora_" in name or name.startswith("lora_") for name in names):
        return "a LoRA: `atelier loras add` takes it"
    if any(name.startswith(("control_model.", "controlnet_cond_embedding.")) for name in names):
        return "a ControlNet: `atelier controlnets add` takes it"
    if any(name.startswith(("down_blocks.", "transformer_blocks.")) for name in names):
        return (
            "one part of a pipeline in diffusers' own layout: add the folder of the whole pipeline"
        )
    if any(name.startswith(("decoder.", "encoder.")) for name in names):
        return "a VAE or a text encoder alone: add the checkpoint or folder of the whole model"
    return (
        "none of its tensors is named as in checkpoints of SD 1.x, SD 2.x, SDXL, SD 3 or Flux, or "
        "in an ESRGAN (RRDBNet); "
        "others are served from a stock folder, if their pipeline is"
    )


def _pickled(file: Path) -> str:
    return (
        f"{file.name} is a pickle, which can run code. Where you trust it, convert it by `python "
        '-c "import sys, torch, safetensors.torch as s; d = torch.load(sys.argv[1], '
        "weights_only=True); d = next((d[k] for k in ('state_dict', 'params_ema', 'params') if k "
        "in d), d); s.save_file({k: v.contiguous() for k, v in d.items() if hasattr(v, 'shape')}, "
        'sys.argv[2])" '
        f"{file.name} {file.stem}.safetensors` and add that"
    )
