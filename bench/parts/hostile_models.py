"""Make model folders and files that nobody should serve, from a small one that is right."""

import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.parts.hostile_files import tensor, tensors, weights

MIB = 2**20
UNET = "unet/config.json"
UNET_WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def make_all(folder: Path, right: Path) -> None:
    """Make a folder for each of `FOLDERS` and the files of `FILES`; `right` is a model folder."""
    for name, spoil in FOLDERS.items():
        shutil.copytree(right, folder / name)
        (folder / name / "atelier.json").unlink(missing_ok=True)
        spoil(folder / name)
    for name, write in FILES.items():
        write(folder / name)


def holding(file: str, content: bytes) -> Callable[[Path], None]:
    """Put other bytes in one file."""

    def spoil(folder: Path) -> None:
        (folder / file).write_bytes(content)

    return spoil


def said(file: str, **fields: object) -> Callable[[Path], None]:
    """Say something else in a configuration."""

    def spoil(folder: Path) -> None:
        told = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(told | fields))

    return spoil


def leading(file: str, target: str) -> Callable[[Path], None]:
    """Put a link in the place of a file."""

    def spoil(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).symlink_to(target)

    return spoil


def hollow(file: str) -> Callable[[Path], None]:
    """Put 9 GB that take no disk in the place of a file."""

    def spoil(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        _hole(folder / file)

    return spoil


def piped(file: str) -> Callable[[Path], None]:
    """Put a pipe in the place of a file: who opens it waits for one who writes."""

    def spoil(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)

    return spoil


def packed(path: Path) -> None:
    """Write a pickle as torch does, in a zip, a thousandth of what it unpacks to."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("archive/data.pkl", "w", force_zip64=True) as pickled,
    ):
        for _ in range(16):
            pickled.write(bytes(MIB))


def looped(folder: Path) -> None:
    """Link a folder into itself."""
    (folder / "unet" / "again").symlink_to(folder)


DEEP = b'{"a":' * 100_000
SHAPES = {"a": tensor([2**62] * 8)}
DIMENSIONS = {"a": tensor([9**19] * 16_000)}
NEGATIVE = {"a": tensor([-(2**62)])}

#: Files that are read as a whole, if anybody does.
HOLLOW = (
    *("model_index.json", "atelier.json", "unet/config.json", "vae/config.json", UNET_WEIGHTS),
    *("tokenizer/tokenizer.json", "tokenizer/vocab.json", "tokenizer/merges.txt"),
    *("tokenizer/tokenizer_config.json", "tokenizer/special_tokens_map.json"),
    *("scheduler/scheduler_config.json", f"{UNET_WEIGHTS}.index.json", "text_encoder/config.json"),
)

FOLDERS: Mapping[str, Callable[[Path], None]] = {
    "deep-index": holding("model_index.json", DEEP),
    "deep-config": holding(UNET, DEEP),
    "deep-atelier": holding("atelier.json", DEEP),
    "gigantic-config": holding(UNET, b'{"a": "' + b"a" * 20 * MIB + b'"}'),
    "endless-config": leading(UNET, "/dev/zero"),
    "endless-weights": leading(UNET_WEIGHTS, "/dev/zero"),
    "endless-tokenizer": leading("tokenizer/tokenizer_config.json", "/dev/zero"),
    **{f"hollow-{file.replace('/', '-')}": hollow(file) for file in HOLLOW},
    "piped-config": piped(UNET),
    "piped-weights": piped(UNET_WEIGHTS),
    "piped-atelier": piped("atelier.json"),
    "linked-outside": leading(UNET, "/etc/passwd"),
    "looped": looped,
    "no-text": holding(UNET, b"\xff\xfe\x00"),
    "config-of-a-list": holding(UNET, b"[]"),
    "config-of-infinities": holding(UNET, b'{"sample_size": 1e999, "in_channels": NaN}'),
    "sizes-of-2-62": said(UNET, sample_size=2**62),
    "sizes-of-texts": said(UNET, sample_size="64", in_channels="4", block_out_channels="a"),
    "sizes-below-zero": said(UNET, sample_size=-64),
    "vae-of-texts": said("vae/config.json", block_out_channels=7, latent_channels=[]),
    "schedule-of-texts": said("scheduler/scheduler_config.json", num_train_timesteps="a"),
    "class-of-a-list": said("model_index.json", _class_name=["a"]),
    "parts-upwards": said(
        "model_index.json", **{"../../etc": ["diffusers", "UNet2DConditionModel"]}
    ),
    "many-parts": said(
        "model_index.json", **{f"p{at}": ["diffusers", "AutoencoderKL"] for at in range(20_000)}
    ),
    "shapes-of-2-62": holding(UNET_WEIGHTS, tensors(SHAPES)),
    "16000-dimensions": holding(UNET_WEIGHTS, tensors(DIMENSIONS)),
    "shapes-below-zero": holding(UNET_WEIGHTS, tensors(NEGATIVE)),
    "header-of-2-63": holding(UNET_WEIGHTS, struct.pack("<Q", 2**63) + b"{}"),
    "deep-header": holding(UNET_WEIGHTS, weights(DEEP)),
    "header-of-9-mb": holding(UNET_WEIGHTS, weights(b" " * 9 * MIB)),
    "tokenizer-of-nothing": holding("tokenizer/tokenizer.json", b"{}"),
    "upscaler-below-zero": holding("atelier.json", b'{"family": "esrgan", "scale": -1}'),
    "atelier-of-infinities": holding("atelier.json", b'{"step_s": 1e999, "max_steps": 1e400}'),
}  # fmt: skip

FILES: Mapping[str, Callable[[Path], None]] = {
    "bomb.ckpt": packed,
    "bomb.pt": packed,
    "bomb.safetensors": packed,
    "pipe.safetensors": os.mkfifo,
    "endless.safetensors": lambda path: path.symlink_to("/dev/zero"),
    "hollow.safetensors": lambda path: _hole(path),
    "hollow-tensors.safetensors": lambda path: _hole(
        path, tensors({"a": tensor([9 * 2**28], end=9 * 2**30)}, b"")
    ),
    "hollow.ckpt": lambda path: _hole(path),
    "deep.safetensors": lambda path: _write(path, weights(DEEP)),
    "shapes.safetensors": lambda path: _write(path, tensors(SHAPES)),
    "dimensions.safetensors": lambda path: _write(path, tensors(DIMENSIONS)),
    "loop.safetensors": lambda path: path.symlink_to(path.name),
    "empty.safetensors": lambda path: _write(path, b""),
}


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _hole(path: Path, begun: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(begun)
        file.truncate(len(begun) + 9 * 2**30)
