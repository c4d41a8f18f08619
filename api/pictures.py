"""What does this service take as a picture, as a template, as a mask?

The header is read first: nothing is decoded before its format, size and number of frames are known.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

from core.errors import ImageRefused

#: Formats that are read -> their media types. Others are not even looked at.
FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
#: How pixels may be kept in them. CMYK is not among these: without its profile it is guesswork.
MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})
#: From here on a mask counts as white, as in stock diffusers.
WHITE = 128
#: Decoded at a time: one of 16 million pixels takes 200 MB for a moment.
MAX_DECODING = 2
#: zlib's level: within a few percent of the best size at a third of its time.
COMPRESSION = 3


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


class Pictures:
    """Reads pictures in threads, so that nobody else waits, and few at a time."""

    def __init__(self, *, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        self._free = asyncio.Semaphore(MAX_DECODING)

    async def read(self, how: Read, data: bytes) -> Picture:
        """Check a picture.

        Raises:
            ImageRefused: it is none that we take; the message says why.
        """
        async with self._free:
            return await asyncio.to_thread(how, data, self._max_pixels)


def read_file(data: bytes, max_pixels: int) -> Picture:
    """Check that `data` is a picture; it is kept as it came."""
    image, content_type = _decoded(data, max_pixels)
    return _picture(data, content_type, image)


def read_template(data: bytes, max_pixels: int) -> Picture:
    """Read a template: upright, in colour, what is transparent laid on white."""
    image, _ = _decoded(data, max_pixels)
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        image = Image.new("RGBA", clear.size, "white")
        image.alpha_composite(clear)
    return _png(image.convert("RGB"))


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


def _has_holes(image: Image.Image) -> bool:
    if not image.has_transparency_data:
        return False
    opaque = image.convert("RGBA").getchannel("A").histogram()[255]
    return opaque < image.width * image.height


def _decoded(data: bytes, max_pixels: int) -> tuple[Image.Image, str]:
    with _refusing():
        image = Image.open(BytesIO(data), formats=list(FORMATS))
    _check_header(image, max_pixels)
    with _refusing():
        image.load()
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode == "I;16":  # plain conversion would cut bright greys off
            return image.point(lambda value: value * (1 / 256)).convert("L"), "image/png"
    return image, FORMATS[image.format or "PNG"]


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


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except UnidentifiedImageError as error:
        raise ImageRefused("is no PNG, JPEG or WebP image that can be read") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageRefused("has too many pixels: make it smaller") from error
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
