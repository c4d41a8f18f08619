"""Check and convert what clients send as pictures, templates and masks, in `decode_process`.

The header is read first: nothing is decoded before its format, size, frames and scans are known.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Protocol

from PIL import ExifTags, Image, UnidentifiedImageError

from core.errors import ImageRefused

#: Formats that are read -> their media types. Others are not even looked at.
FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
#: How pixels may be kept in them. CMYK is not among these: without its profile it is guesswork.
MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})
#: From here on a mask counts as white, as in stock diffusers.
WHITE = 128
#: We look ourselves, and say our own limit.
Image.MAX_IMAGE_PIXELS = None

#: Of a JPEG: each is decoded over the whole picture. Progressive ones of common tools have ten.
MAX_SCANS = 32
#: A marker of a JPEG, among bytes that are none: stuffed, restarts, fill.
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")
_SCAN, _END, _START = 0xDA, 0xD9, 0xD8
#: zlib's level: within a few percent of the best size at a third of its time.
COMPRESSION = 3
#: Orientation by EXIF -> what sets a picture upright; none is needed for any other.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture that was checked, as it will be stored."""

    data: bytes
    content_type: str
    width: int  #: pixels, upright
    height: int  #: pixels, upright
    sha256: str  #: hex digest of `data`
    masked: float = 1.0  #: of a mask: share of its pixels that are made anew


#: Checks bytes against a limit of pixels; raises ImageRefused.
Read = Callable[[bytes, int], Picture]


class Pictures(Protocol):
    """Reads pictures where nobody else waits for them."""

    async def read(self, how: Read, data: bytes) -> Picture:
        """Check a picture.

        Raises:
            ImageRefused: it is none that we take; the message says why.
        """
        ...


def read_file(data: bytes, max_pixels: int) -> Picture:
    """Check that `data` is a picture; it is kept as it came."""
    image, content_type = _decoded(data, max_pixels)
    return _picture(data, content_type, image)


def read_template(data: bytes, max_pixels: int) -> Picture:
    """Read a template: upright, in colour, what is transparent laid on white."""
    image = _on_white(_decoded(data, max_pixels)[0])
    return _png(image if image.mode == "RGB" else image.convert("RGB"))


def read_mask(data: bytes, max_pixels: int) -> Picture:
    """Read a mask: upright, 255 where it is white (made anew) and 0 where it is black (kept)."""
    image, _ = _decoded(data, max_pixels)
    if _has_holes(image):
        raise ImageRefused(
            "has transparent parts, which say nothing here: paint white what is to be made anew, "
            "black what is to be kept"
        )
    mask = image.convert("L").point([255 if value >= WHITE else 0 for value in range(256)])
    if mask.getbbox() is None:
        raise ImageRefused("is black everywhere: paint white what is to be made anew")
    return replace(_png(mask), masked=mask.histogram()[255] / (mask.width * mask.height))


def read_alpha_mask(data: bytes, max_pixels: int) -> Picture:
    """Read a mask that is transparent where something is made anew, as OpenAI's API has them."""
    image, _ = _decoded(data, max_pixels)
    if not _has_holes(image):
        raise ImageRefused(
            "has no transparent part: make transparent (alpha 0) what is to be made anew"
        )
    mask = image.convert("RGBA").getchannel("A").point([255, *[0] * 255])
    if mask.getbbox() is None:
        raise ImageRefused("is transparent nowhere in full: alpha must be 0 to be made anew")
    return replace(_png(mask), masked=mask.histogram()[255] / (mask.width * mask.height))


def _on_white(image: Image.Image) -> Image.Image:
    """Lay what is transparent on white, with no more copies than it takes."""
    if not image.has_transparency_data:
        return image
    clear = image if image.mode == "RGBA" else image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)


def _has_holes(image: Image.Image) -> bool:
    if not image.has_transparency_data:
        return False
    opaque = image.convert("RGBA").getchannel("A").histogram()[255]
    return opaque < image.width * image.height


def _decoded(data: bytes, max_pixels: int) -> tuple[Image.Image, str]:
    with _refusing():
        image: Image.Image = Image.open(BytesIO(data), formats=list(FORMATS))
    content_type = FORMATS.get(image.format or "PNG", FORMATS["JPEG"])  # MPO, of one picture
    _check_header(image, max_pixels)
    if content_type == FORMATS["JPEG"]:
        _check_scans(data)
    with _refusing():
        image.load()
        if image.format == "WEBP":  # its reader keeps three pictures of this size
            image = image.copy()
        if (turn := _turn_of(image)) is not None:
            image = image.transpose(turn)
        if image.mode == "I;16":  # plain conversion would cut bright greys off
            return image.point(lambda value: value * (1 / 256)).convert("L"), "image/png"
    return image, content_type


def _turn_of(image: Image.Image) -> Image.Transpose | None:
    """Read what sets a picture upright; EXIF that cannot be read turns nothing."""
    try:
        with _refusing():
            return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except ImageRefused as refused:
        if isinstance(refused.__cause__, MemoryError):
            raise
        return None  # its pixels are good


def _check_header(image: Image.Image, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise ImageRefused(
            f"has {width} x {height} pixels: at most {max_pixels} in all are taken, make it smaller"
        )
    if getattr(image, "n_frames", 1) > 1:
        raise ImageRefused("has several frames: send one still picture")
    if image.mode not in MODES or (image.mode == "I;16" and "transparency" in image.info):
        raise ImageRefused(f"keeps its pixels as {image.mode}: save it as 8-bit RGB or grey")


def _check_scans(data: bytes) -> None:
    """Walk over the markers of a JPEG; segments are skipped, they may hold other pictures."""
    at, scans = 2, 0
    while (found := _MARKER.search(data, at)) is not None and found[1][0] != _END:
        at = found.end()
        scans += found[1][0] == _SCAN
        if scans > MAX_SCANS:
            raise ImageRefused(f"has more than {MAX_SCANS} scans: save it with fewer, or as a PNG")
        if found[1][0] not in (1, _START):
            at += int.from_bytes(data[at : at + 2], "big")


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except UnidentifiedImageError as error:
        raise ImageRefused("is no PNG, JPEG or WebP image that can be read") from error
    except Exception as error:  # readers of broken files raise whatever they stumble over
        raise ImageRefused("is damaged: it cannot be read to its end") from error


def _png(image: Image.Image) -> Picture:
    """Write a PNG of the pixels alone: no place, profile or comment goes on from here."""
    image.info.clear()
    written = BytesIO()
    image.save(written, "PNG", compress_level=COMPRESSION)
    return _picture(written.getvalue(), "image/png", image)


def _picture(data: bytes, content_type: str, image: Image.Image) -> Picture:
    digest = hashlib.sha256(data).hexdigest()
    return Picture(
        data=data,
        content_type=content_type,
        width=image.width,
        height=image.height,
        sha256=digest,
    )
