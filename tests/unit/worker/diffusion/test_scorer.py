import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer

from core.errors import BadWeights
from worker.diffusion.scorer import Scorer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PROMPTS = ["a cat", "two red dogs under an old tree", "sky"]


def tokenizer():
    pieces = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
    vocab = {piece: at for at, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    return CLIPTokenizer(vocab=vocab, merges=[], model_max_length=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of PickScore_v1, whose towers are CLIP ViT-H, with random weights of a few kB."""
    torch.manual_seed(0)
    size = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_act": "gelu"}
    text = size | {"vocab_size": 54, "hidden_size": 16, "intermediate_size": 32}
    text |= {"max_position_embeddings": 16, "bos_token_id": 52, "eos_token_id": 53}
    vision = size | {"hidden_size": 24, "intermediate_size": 48, "image_size": 28, "patch_size": 14}
    path = tmp_path_factory.mktemp("weights") / "PickScore_v1"
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(
        path, safe_serialization=True
    )
    size = {"shortest_edge": 28}
    CLIPImageProcessor(size=size, crop_size={"height": 28, "width": 28}).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def scorer(folder):
    return Scorer(folder)


def images(count=3):
    pixels = np.random.default_rng(1).integers(0, 256, (count, 40, 32, 3), dtype=np.uint8)
    return [Image.fromarray(each) for each in pixels]


def test_a_score_is_the_scale_times_the_cosine_as_stock_transformers_gives_it(folder, scorer):
    model = CLIPModel.from_pretrained(folder)
    pixels = CLIPImageProcessor.from_pretrained(folder)(images(), return_tensors="pt").pixel_values
    cut = CLIPTokenizer.from_pretrained(folder)(
        PROMPTS, padding=True, truncation=True, max_length=16, return_tensors="pt"
    )
    with torch.no_grad():
        stock = model(**cut, pixel_values=pixels).logits_per_text.diagonal()
    torch.testing.assert_close(scorer.scores(PROMPTS, images()), stock)


def test_embeddings_are_unit_vectors_on_the_host(scorer):
    for embeddings in (scorer.embed_text(PROMPTS), scorer.embed_images(images())):
        assert embeddings.shape == (3, 8)
        torch.testing.assert_close(embeddings.norm(dim=-1), torch.ones(3))


def test_a_score_does_not_depend_on_who_shared_the_batch(scorer):
    together = scorer.scores(PROMPTS * 30, images() * 30)
    alone = [
        scorer.scores([prompt], [image]) for prompt, image in zip(PROMPTS, images(), strict=True)
    ]
    torch.testing.assert_close(together[-3:], torch.cat(alone))


def test_arrays_score_like_images(scorer):
    arrays = [np.asarray(image) for image in images()]
    torch.testing.assert_close(scorer.embed_images(arrays), scorer.embed_images(images()))


def test_half_precision_scores_alike(folder, scorer):
    half = Scorer(folder, dtype=torch.bfloat16).scores(PROMPTS, images())
    assert half.dtype is torch.float32
    torch.testing.assert_close(half, scorer.scores(PROMPTS, images()), atol=0.5, rtol=0.05)


def test_nothing_scores_nothing_and_unequal_numbers_are_refused(scorer):
    assert scorer.scores([], []).shape == (0,)
    with pytest.raises(ValueError, match="3 prompts for 2 images"):
        scorer.scores(PROMPTS, images(2))


def spoil(folder, to, name):
    shutil.copytree(folder, to)
    return to / name


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "preprocessor_config.json"])
def test_a_missing_file_is_named(folder, tmp_path, name):
    spoil(folder, tmp_path / "bad", name).unlink()
    with pytest.raises(BadWeights, match=r"bad.*(safetensors|json)"):
        Scorer(tmp_path / "bad")


def test_a_folder_without_tokenizer_is_refused(folder, tmp_path):
    spoil(folder, tmp_path / "bad", "tokenizer.json").unlink()
    with pytest.raises(BadWeights, match=r"neither tokenizer\.json nor vocab\.json"):
        Scorer(tmp_path / "bad")


def test_truncated_weights_are_named(folder, tmp_path):
    weights = spoil(folder, tmp_path / "bad", "model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(BadWeights, match=r"bad/model\.safetensors: truncated"):
        Scorer(tmp_path / "bad")


def test_pickled_weights_are_refused(folder, tmp_path):
    weights = spoil(folder, tmp_path / "bad", "model.safetensors")
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(BadWeights, match="pickles can run code"):
        Scorer(tmp_path / "bad")


def test_weights_of_another_shape_are_refused(folder, tmp_path):
    config = spoil(folder, tmp_path / "bad", "config.json")
    fields = json.loads(config.read_text())
    fields["projection_dim"] = 12
    config.write_text(json.dumps(fields))
    with pytest.raises(BadWeights, match=r"model\.safetensors"):
        Scorer(tmp_path / "bad")
