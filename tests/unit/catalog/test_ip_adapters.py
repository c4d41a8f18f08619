"""Folders of IP-Adapters: what is read, and what is refused by its file."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from catalog.ip_adapters import read_ip_adapters
from core.errors import ConfigurationError
from core.uploads.ip_adapter import IpAdapter

PLAIN = ("image_proj.proj.weight", "image_proj.norm.weight", "ip_adapter.1.to_k_ip.weight")
PLUS = ("image_proj.latents", "image_proj.proj_in.weight", "ip_adapter.1.to_k_ip.weight")


def write(folder, names, name="plain", files=("a",)):
    (folder / "plain" / "image_encoder").mkdir(parents=True)
    (folder / "plain" / "image_encoder" / "config.json").write_text("{}")
    (folder / "plain" / "atelier.json").write_text(json.dumps({"name": name, "models": ["m"]}))
    for file in files:
        tensors = {each: np.zeros(1, np.float32) for each in names}
        save_file(tensors, folder / "plain" / f"{file}.safetensors")


@pytest.mark.parametrize("names", [PLAIN, PLUS])
def test_plain_and_plus_ones_are_read(tmp_path, names):
    write(tmp_path, names)
    assert read_ip_adapters(tmp_path) == {"plain": IpAdapter(name="plain", models=("m",))}
    assert read_ip_adapters(tmp_path / "nothing") == {}


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        ({"names": PLAIN, "name": "other"}, "must be named 'other'"),
        ({"names": PLAIN, "files": ()}, "needs one .safetensors file, and has none"),
        ({"names": PLAIN, "files": ("a", "b")}, "a.safetensors, b.safetensors"),
        ({"names": ("x.lora_A.weight",)}, "is no IP-Adapter"),
        ({"names": ("image_proj.proj.3.weight", PLAIN[2])}, "full-face"),
        ({"names": ("image_proj.proj.0.weight", *PLAIN[1:])}, "FaceID"),
    ],
)
def test_what_is_not_served_is_named(tmp_path, of, reason):
    write(tmp_path, **of)
    with pytest.raises(ConfigurationError, match=reason):
        read_ip_adapters(tmp_path)


def test_an_image_encoder_is_asked_for_where_it_belongs(tmp_path):
    write(tmp_path, PLAIN)
    (tmp_path / "plain" / "image_encoder" / "config.json").unlink()
    with pytest.raises(ConfigurationError, match=r"image_encoder/config\.json: is missing"):
        read_ip_adapters(tmp_path)
