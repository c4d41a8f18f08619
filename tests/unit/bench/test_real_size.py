import diffusers
import pytest
import torch

from bench.parts import real_size
from bench.parts.real_size import Checkpoint, checkpoints, write
from bench.parts.real_size_life import live
from tests.models import (
    OF_DIFFUSERS,
    make_text_encoder,
    make_tokenizer,
    make_unet,
    make_vae,
)

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


def parts():
    tokenizer = make_tokenizer()
    with torch.device("cpu"):
        scheduler = diffusers.DDIMScheduler(clip_sample=False, steps_offset=1)
    return {
        "unet": make_unet(cross_attention_dim=32),
        "vae": make_vae(),
        "text_encoder": make_text_encoder(tokenizer),
        "tokenizer": tokenizer,
        "scheduler": scheduler,
        "safety_checker": None,
        "feature_extractor": None,
    }


def test_a_folder_is_one_as_diffusers_saves_it_and_its_model_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(real_size, "SHARD_BYTES", 2**17)
    tiny = Checkpoint(name="tiny", pipeline="StableDiffusionPipeline", parts=parts)
    written = write(tiny, tmp_path / "tiny")
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(
        tmp_path / "tiny", dtype=torch.float16, use_safetensors=True
    )
    weights = [w for part in (pipe.unet, pipe.vae, pipe.text_encoder) for w in part.parameters()]
    assert written == sum(weight.nbytes for weight in weights)
    assert len(list((tmp_path / "tiny/unet").glob("*.safetensors"))) > 1
    life = live(tmp_path / "tiny", "float16", 32)
    assert life.weights == pytest.approx(written / 2**20)


@pytest.mark.parametrize(
    ("name", "billions"), [("sd15", 1.066), ("sdxl", 3.469), ("sd3", None), ("flux", None)]
)
def test_models_have_the_size_that_they_are_published_with_or_say_what_was_cut(name, billions):
    of = checkpoints()[name]
    assert bool(of.cut) is (billions is None)
    if billions is not None:
        with torch.device("meta"):
            made = [part for part in of.parts().values() if isinstance(part, torch.nn.Module)]
        count = sum(weight.numel() for part in made for weight in part.parameters())
        assert count / 1e9 == pytest.approx(billions, abs=0.001)
