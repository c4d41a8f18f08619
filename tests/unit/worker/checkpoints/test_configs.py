"""What ships for SD 1.5, SD 2.1 and SDXL is theirs: parameters, names, and CLIP's words."""

import json

import diffusers
import pytest
import torch
import transformers
from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint

from api.intake.tokenizers import load_tokenizers
from tests import original
from worker.checkpoints.configs import CONFIGS, write_configs

SIZES = {
    ("sd15", "unet"): 859_520_964,
    ("sd15", "vae"): 83_653_863,
    ("sd15", "text_encoder"): 123_060_480,
    ("sd2", "unet"): 865_910_724,
    ("sd2", "text_encoder"): 340_387_840,
    ("sdxl", "unet"): 2_567_463_684,
    ("sdxl", "text_encoder_2"): 694_659_840,
}


def build(kind, part):
    library, name = CONFIGS[kind][""][part]
    config = CONFIGS[kind][part]
    with torch.device("meta"):
        if library == "diffusers":
            return getattr(diffusers, name).from_config(config)
        return getattr(transformers, name)(transformers.CLIPTextConfig(**config))


@pytest.mark.parametrize(("kind", "part"), SIZES, ids=" ".join)
def test_each_part_has_as_many_parameters_as_the_published_one(kind, part):
    module = build(kind, part)
    assert sum(each.numel() for each in module.parameters()) == SIZES[kind, part]


@pytest.mark.parametrize("kind", ["sd15", "sdxl"])
def test_the_names_of_a_full_unet_are_those_of_its_checkpoints(kind):
    module = build(kind, "unet")
    named = original.prefixed("model.diffusion_model.", original.unet(module))
    converted = convert_ldm_unet_checkpoint(named, dict(module.config))
    assert converted.keys() == module.state_dict().keys()


def test_prompts_are_read_by_clips_vocabulary(tmp_path):
    write_configs("sdxl", tmp_path)
    ids = [49406, 320, 1125, 539, 320, 2368, 49407]
    for name in ("tokenizer", "tokenizer_2"):
        tokenizer = transformers.CLIPTokenizer.from_pretrained(tmp_path / name)
        assert tokenizer("a photo of a cat").input_ids == ids
        assert (len(tokenizer), tokenizer.model_max_length) == (49408, 77)
    assert tokenizer.pad_token == "!"
    (counter,) = load_tokenizers([tmp_path / "tokenizer"])
    assert counter.encode("a photo of a cat", add_special_tokens=False).ids == ids[1:-1]
    index = json.loads((tmp_path / "model_index.json").read_text())
    parts = {name for name, value in index.items() if isinstance(value, list) and value[0]}
    assert all((tmp_path / part).is_dir() for part in parts)
