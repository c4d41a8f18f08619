import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from classifier.encoder.encoder import Floats
from classifier.encoder.installed import PACKAGE
from classifier.encoder.minilm import MiniLM
from core.errors import ConfigurationError
from core.settings import Settings
from scheduler.approximate_cache.embed import Embedder, Remembering, open_embedder
from storage.vectors.index import Vector

PROMPTS = [
    "a large red circle above a small blue square",
    "a red circle",
    "two striped yellow triangles on a green background, left of a tiny white star",
    "Ünïcode, ça va? " * 60,
]


def package_folder() -> Path:
    found = find_spec(PACKAGE)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return open_embedder(Settings())


def test_it_embeds_as_the_stock_implementation_does(embedder: Embedder) -> None:
    import torch
    from transformers import BertModel, BertTokenizerFast

    tokenizer = BertTokenizerFast.from_pretrained(package_folder())
    model = BertModel.from_pretrained(package_folder()).eval()
    read = tokenizer(PROMPTS, padding=True, truncation=True, max_length=128, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**read).last_hidden_state
    mask = read["attention_mask"][..., None]
    stock = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()
    assert np.abs(np.stack(embedder.embed(PROMPTS)) - stock).max() < 2e-6


def test_a_vector_has_length_one_and_depends_on_its_prompt_alone(embedder: Embedder) -> None:
    together = MiniLM(package_folder()).embed(PROMPTS)
    for prompt, vector in zip(PROMPTS, together, strict=True):
        assert vector.shape == (embedder.size,)
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
        assert np.abs(embedder.embed([prompt])[0] - vector).max() < 1e-5
    assert together[0] @ together[1] > together[0] @ together[2]


def test_weights_that_are_not_those_we_know_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="SHA-256"):
        MiniLM(package_folder(), sha256="0" * 64)


def test_a_folder_without_an_encoder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        open_embedder(Settings(encoder_dir=tmp_path))
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(package_folder() / name, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConfigurationError, match="not a sentence encoder"):
        open_embedder(Settings(encoder_dir=tmp_path))


class Counting:
    name, size = "counting", 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, prompts: Sequence[str]) -> list[Vector]:
        self.asked += prompts
        return [np.full(1, len(prompt), np.float32) for prompt in prompts]

    def features(self, prompts: Sequence[str]) -> Floats:
        return np.stack(self.embed(prompts))


def test_a_prompt_that_comes_again_is_not_embedded_again() -> None:
    counting = Counting()
    remembering = Remembering(counting, capacity=2)
    assert [v[0] for v in remembering.embed(["a", "bb", "a"])] == [1, 2, 1]
    remembering.embed(["bb", "a"])
    assert counting.asked == ["a", "bb"]
    remembering.embed(["ccc"])
    remembering.embed(["bb"])
    assert counting.asked == ["a", "bb", "ccc"]
    assert (remembering.name, remembering.size) == ("counting", 1)
