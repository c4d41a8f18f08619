"""List headers of weights and pictures that are small to send and dear to read."""

import json
import os
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from io import BytesIO

from PIL import Image

from bench.hostility.input import FILE, PNG, Input, Known, Pieces, Write, post
from bench.parts.hostile_files import (
    deep_png,
    exif_bomb,
    jpeg_of_scans,
    jpeg_with,
    lora_of,
    many_chunks,
    png,
    profile_bomb,
    tensor,
    tensors,
    text_bomb,
    webp,
    weights,
)

MIB = 2**20
TEMPLATES, FILES = "/v1/templates", "/v1/files"


def lora(data: bytes, target: str = "/v1/loras") -> Write:
    """Upload weights."""
    return lambda known: post(known, target, data, FILE)


def controlnet(data: bytes) -> Write:
    """Upload the weights of a ControlNet."""
    return lora(data, "/v1/controlnets")


def picture(data: bytes, target: str = TEMPLATES) -> Write:
    """Upload a picture."""
    return lambda known: post(known, target, data, PNG)


def picture_of(make: Callable[[], bytes], target: str = TEMPLATES) -> Write:
    """Upload a picture that takes its time to be made: who wants the first line need not wait."""

    def pieces(known: Known) -> Pieces:
        yield (line := f"POST {target} HTTP/1.1\r\n".encode())
        head, *rest = post(known, target, make(), PNG)
        yield from (head.removeprefix(line), *rest)

    return pieces


def edit(template: bytes, mask: bytes) -> Write:
    """Submit an edit of pictures that are in it."""
    template_, mask_ = (f"data:;base64,{b64encode(each).decode()}" for each in (template, mask))
    body = json.dumps({"task": "edit", "prompt": "a", "template": template_, "mask": mask_})
    return lambda known: post(known, "/v1/jobs", body.encode())


def control(image: bytes) -> Write:
    """Submit a job with a picture to keep to."""
    url = f"data:;base64,{b64encode(image).decode()}"
    use = {"id": "edges", "image": url}
    body = json.dumps({"prompt": "a", "controls": [use] * 3}).encode()
    return lambda known: post(known, "/v1/jobs", body)


def saved(kind: str, count: int, side: int = 64) -> bytes:
    """Write a picture, or `count` of them in one file."""
    frames = [Image.new("RGB", (side, side), (at % 256, 0, 0)) for at in range(count)]
    written = BytesIO()
    more = {"save_all": True, "append_images": frames[1:]} if count > 1 else {}
    frames[0].save(written, kind, **more)
    return written.getvalue()


def noise(side: int) -> bytes:
    """Write a picture of noise."""
    written = BytesIO()
    Image.effect_noise((side, side), 60).convert("RGB").save(written, "JPEG", quality=50)
    return written.getvalue()


SHAPE = [9**19] * 16_000
BLOCKS = {f"transformer_blocks.{at}.a": tensor() for at in range(9000)}
STATED = json.dumps({"unet.alpha_pattern": {f"a.{at}": 1 for at in range(90_000)}})

of_weights = partial(Input, kind="weights")

WEIGHTS = (
    of_weights(
        name="16,000 dimensions", says="at most 8",
        pieces=lora(tensors({"a": tensor(SHAPE)})),
    ),
    of_weights(
        name="a ControlNet of 16,000 dimensions", pieces=controlnet(tensors({"a": tensor(SHAPE)})),
        says="at most 8",
    ),
    of_weights(
        name="sides of 2**62", pieces=lora(tensors({"a": tensor([2**62] * 8)})),
        says="not below 4294967296"
    ),
    of_weights(
        name="a header 100,000 deep", says="deeply",
        pieces=lora(weights(b'{"a":' + b"[" * 100_000)),
    ),
    of_weights(
        name="metadata 100,000 deep", says="deeply",
        pieces=lora(weights(b'{"__metadata__":' + b'{"a":' * 100_000)),
    ),
    of_weights(
        name="a name of 3.9 MB", pieces=lora(tensors({"a" * 3_900_000: tensor()})),
        says="at most 256 characters",
    ),
    of_weights(
        name="a number format of 3.9 MB",
        pieces=lora(tensors({"a": tensor(dtype="F" * 3_900_000)})),
        says="unknown number format",
    ),
    of_weights(name="40,000 tensors", pieces=lora(lora_of(40_000)), says="at most 10000"),
    of_weights(name="10,000 tensors", pieces=lora(lora_of(10_000)), says="no such layer"),
    of_weights(
        name="700,000 members", says="at most 200000",
        pieces=lora(weights(b"{" + b",".join(b'"%x":0' % at for at in range(400_000)) + b"}")),
    ),
    of_weights(
        name="a header of 2**63 bytes", pieces=lora(b"\xff" * 8 + b"{}"), says="cut short"
    ),
    of_weights(
        name="a header of 5 MB", pieces=lora(weights(b" " * 5 * MIB)), says="at most 4194304"
    ),
    of_weights(
        name="90,000 stated alphas", says="at most 10000",
        pieces=lora(tensors({"__metadata__": {"lora_adapter_metadata": STATED}, "a": tensor()})),
    ),
    of_weights(
        name="9,000 blocks of a ControlNet", pieces=controlnet(tensors(BLOCKS)), says="overlap"
    ),
    of_weights(
        name="forty headers of 10,000 tensors", pieces=lora(lora_of(10_000)), says="no such layer",
        count=40,
    ),
    of_weights(
        name="a form", says="octet-stream",
        pieces=lambda known: post(known, "/v1/loras", b"a=1"),
    ),
    of_weights(
        name="300 uploads of 1 MB that do not end", count=300, hold_s=3.0, is_cut=True,
        pieces=lambda known: [
            *post(known, "/v1/loras", b"", FILE)[:0],
            (
                "POST /v1/loras HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"{known.authorization}\r\n{FILE}\r\nContent-Length: 9999999\r\n\r\n"
            ).encode(),
            b"\0" * MIB,
        ],
    ),
)  # fmt: skip

WIDE = {"<cat>": {"dtype": "F32", "shape": [65, 768], "data_offsets": [0, 65 * 768 * 4]}}
NOT_FINITE = {"<cat>": {"dtype": "F32", "shape": [1, 32], "data_offsets": [0, 128]}}
VECTORS = "/v1/embeddings"
#: A zip as torch saves tensors: what unpacks it may run what it holds.
PICKLE = b"PK\x03\x04" + bytes(1000)
of_words = partial(Input, kind="weights", is_refused=True)

EMBEDDINGS = (
    of_words(name="an embedding of 65 words", pieces=lora(
        tensors(WIDE, bytes(65 * 768 * 4)), VECTORS)),
    of_words(name="an embedding of NaN", pieces=lora(
        tensors(NOT_FINITE, b"\xff" * 128), VECTORS + "?token=cat-of-nan")),
    of_words(name="an embedding that is a pickle", pieces=lora(PICKLE, VECTORS), says="pickle"),
    of_words(name="an embedding of 2 MB", pieces=lora(bytes(2 * MIB), VECTORS), says="1048576"),
    of_words(name="an embedding of 9,000 tensors", pieces=lora(lora_of(9000), VECTORS)),
    of_words(name="an embedding called by an escape", pieces=lora(
        tensors({"\x1b[2J": tensor([1, 1])}), VECTORS)),
    of_words(name="an embedding for a word of 65 letters", pieces=lora(
        tensors({"a": tensor()}), VECTORS + "?token=" + "a" * 65)),
    of_words(name="an embedding for a word of escapes", pieces=lora(
        tensors({"a": tensor()}), VECTORS + "?token=%1b%5b2J")),
    of_words(name="an embedding for a model of 7,000 letters", pieces=lora(
        tensors({"a": tensor()}), VECTORS + "?token=cat&model=" + "a" * 7000)),
    of_words(name="a LoRA that is a pickle", pieces=lora(PICKLE)),
    of_words(name="a LoRA for a model upwards", pieces=lora(
        lora_of(1), "/v1/loras?model=..%2f..%2fetc")),
    of_words(name="a LoRA bound in no way", pieces=lora(lora_of(1), "/v1/loras?bound=NaN")),
    of_words(name="a ControlNet that is a pickle", pieces=controlnet(PICKLE)),
    of_words(name="a ControlNet of an order that is none", pieces=lora(
        lora_of(1), "/v1/controlnets?order=%00")),
    of_words(name="a ControlNet of a condition of 7,000 letters", pieces=lora(
        lora_of(1), "/v1/controlnets?condition=" + "a" * 7000)),
    *(of_words(name=f"a file of nothing to {target}", pieces=lora(b"", target))
      for target in ("/v1/loras", "/v1/controlnets", VECTORS)),
)  # fmt: skip

SCANS = jpeg_of_scans(2400)
of_pictures = partial(Input, kind="pictures")

PICTURES = (
    of_pictures(name="a template of 2,400 scans", pieces=picture(SCANS), says="more than 32 scans"),
    of_pictures(
        name="a file of 2,400 scans", says="more than 32 scans",
        pieces=picture(SCANS, FILES),
    ),
    of_pictures(
        name="an edit of 2,400 scans", says="more than 32 scans",
        pieces=edit(SCANS, SCANS),
    ),
    of_pictures(
        name="a condition of 2,400 scans", says="more than 32 scans",
        pieces=control(SCANS),
    ),
    of_pictures(
        name="twenty of 2,400 scans", pieces=picture(SCANS), says="more than 32 scans", count=20
    ),
    of_pictures(
        name="32 scans of 16 million pixels", says="multiple",
        pieces=picture(jpeg_of_scans(32)),
    ),
    of_pictures(
        name="30,000 x 30,000 pixels", pieces=picture(png(side=30_000)), says="at most 16777216"
    ),
    of_pictures(
        name="1 x 2**31 pixels", says="at most",
        pieces=picture(png(side=1, height=2**31 - 1)),
    ),
    of_pictures(name="texts that unpack", pieces=picture_of(text_bomb), says="damaged"),
    of_pictures(name="a profile that unpacks", pieces=picture_of(profile_bomb), says="damaged"),
    of_pictures(name="60,000 entries of Exif", pieces=picture_of(exif_bomb), says=""),
    of_pictures(name="500,000 chunks", pieces=picture_of(many_chunks), says=""),
    of_pictures(name="a GIF", pieces=picture(saved("GIF", 50)), says="PNG, JPEG or WebP"),
    of_pictures(name="a TIFF", pieces=picture(saved("TIFF", 2)), says="PNG, JPEG or WebP"),
    of_pictures(
        name="an EPS", says="PNG, JPEG or WebP",
        pieces=picture(b"%!PS-Adobe-3.0 EPSF-3.0\n"),
    ),
    of_pictures(
        name="a PNG of 200 frames", says="several frames",
        pieces=picture_of(partial(saved, "PNG", 200)),
    ),
    of_pictures(
        name="a WebP of 200 frames", says="several frames",
        pieces=picture_of(partial(saved, "WEBP", 200)),
    ),
    of_pictures(
        name="8 MB of nothing", says="PNG, JPEG or WebP",
        pieces=picture(os.urandom(8_000_000)),
    ),
    of_pictures(name="16 bits of 16 million pixels", pieces=picture_of(deep_png), says=""),
    of_pictures(
        name="16 bits of 16 million pixels in passes", says="",
        pieces=picture_of(partial(deep_png, is_interlaced=True), FILES),
    ),
    of_pictures(name="a WebP of 16,384 x 16,384", pieces=picture(webp(16_384)), says="damaged"),
    of_pictures(
        name="an AVIF", says="PNG, JPEG or WebP",
        pieces=picture_of(partial(saved, "AVIF", 1)),
    ),
    of_pictures(name="an icon", pieces=picture(saved("ICO", 1)), says="PNG, JPEG or WebP"),
    of_pictures(
        name="an SVG of entities", says="PNG, JPEG or WebP",
        pieces=picture(b'<!DOCTYPE a [<!ENTITY b "' + b"&c;" * 9000 + b'">]><svg>&b;</svg>'),
    ),
    of_pictures(
        name="a profile of 7 MB", pieces=picture(jpeg_with(0xE2, b"ICC_PROFILE\0" * 600_000))
    ),
    of_pictures(
        name="Exif of 7 MB", pieces=picture(jpeg_with(0xE1, b"Exif\0\0II*\0\xff" * 600_000))
    ),
    of_pictures(name="comments of 7 MB", pieces=picture(jpeg_with(0xFE, b"a" * 7_000_000))),
    of_pictures(
        name="a picture of nothing", pieces=picture(b""), is_refused=True
    ),
    of_pictures(
        name="a picture as JSON", is_refused=True,
        pieces=lambda known: post(known, TEMPLATES, b"{}"),
    ),
    of_pictures(
        name="ten of 16 million pixels", count=10, is_slow=True,
        pieces=picture_of(partial(noise, 4096), FILES),
    ),
)  # fmt: skip
