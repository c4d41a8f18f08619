"""What is taken as a picture, a template and a mask, and what is refused before it is decoded."""

import contextlib
import struct
import time
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from api.intake.decode_images import read_file, read_mask, read_template
from bench.parts.hostile_files import jpeg_of_scans, profile_bomb, text_bomb
from core.errors import ImageRefused
from tests.unit.api.pictures import a_mask, a_photo, opened, saved

LIMIT = 128 * 128
READS = [read_file, read_template, read_mask]
READABLE = {kind: a_photo(kind=kind) for kind in ("png", "jpeg", "webp")}


def png_of_size(width, height):
    """A header alone: whoever decodes it finds nothing."""

    def chunk(kind, data):
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def frames(kind):
    images = [Image.new("RGB", (64, 64), colour) for colour in ("red", "blue")]
    return saved(images[0], kind, save_all=True, append_images=images[1:])


@pytest.mark.parametrize("kind", READABLE)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_template_becomes_an_rgb_png_of_its_size(kind, mode):
    picture = read_template(a_photo(80, 48, kind, mode), LIMIT)
    image = opened(picture.data)
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (80, 48))
    assert (picture.width, picture.height, picture.content_type) == (80, 48, "image/png")


def test_a_png_keeps_its_pixels_and_loses_everything_else():
    photo = opened(a_photo())
    exif = Image.Exif()
    exif[0x010E] = "at home"
    sent = saved(photo, exif=exif, icc_profile=b"profile", dpi=(300, 300))
    stored = read_template(sent, LIMIT)
    assert opened(stored.data).tobytes() == photo.tobytes()
    assert b"at home" not in stored.data and opened(stored.data).info == {}
    assert stored.sha256 == read_template(a_photo(), LIMIT).sha256


@pytest.mark.parametrize("read", READS)
def test_a_picture_that_lies_on_its_side_is_set_upright(read):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = read(a_photo(80, 48, "jpeg", exif=exif), LIMIT)
    assert (picture.width, picture.height) == (48, 80)


@pytest.mark.parametrize("kind", READABLE)
@pytest.mark.parametrize("orientation", range(1, 10))
def test_a_picture_is_turned_as_pillow_turns_it(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    sent = a_photo(80, 48, kind, exif=exif)
    upright = ImageOps.exif_transpose(opened(sent))
    image = opened(read_template(sent, LIMIT).data)
    assert (image.size, image.tobytes()) == (upright.size, upright.tobytes())


@pytest.mark.parametrize("kind", READABLE)
def test_exif_that_cannot_be_read_turns_nothing(kind):
    sent = a_photo(80, 48, kind, exif=b"Exif\0\0" + b"junk" * 8, dpi=(72, 72))
    image = opened(read_template(sent, LIMIT).data)
    assert (image.size, image.tobytes()) == ((80, 48), opened(sent).tobytes())


def test_what_is_transparent_in_a_template_lies_on_white():
    clear = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    clear.paste((0, 0, 255, 255), (0, 0, 32, 32))
    image = opened(read_template(saved(clear), LIMIT).data)
    assert (image.getpixel((60, 60)), image.getpixel((5, 5))) == ((255, 255, 255), (0, 0, 255))


def test_a_palette_is_read_as_its_colours():
    photo = opened(a_photo()).quantize(16)
    image = opened(read_template(saved(photo), LIMIT).data)
    assert image.tobytes() == photo.convert("RGB").tobytes()


def test_bright_greys_of_sixteen_bits_are_not_cut_off():
    deep = saved(Image.new("I;16", (64, 64), 40_000))
    assert opened(read_template(deep, LIMIT).data).getpixel((0, 0)) == (156, 156, 156)


@pytest.mark.parametrize("mode", ["L", "1", "RGB", "P", "LA", "RGBA"])
def test_a_mask_becomes_one_channel_of_black_and_white(mode):
    image = opened(read_mask(a_mask(mode=mode), LIMIT).data)
    assert (image.format, image.mode) == ("PNG", "L")
    assert image.tobytes() == opened(a_mask()).tobytes()


def test_a_mask_is_white_from_the_middle_on_as_in_stock_diffusers():
    ramp = Image.frombytes("L", (256, 1), bytes(range(256)))
    mask = opened(read_mask(saved(ramp), LIMIT).data)
    assert mask.tobytes() == bytes([0] * 128 + [255] * 128)


def test_a_mask_may_be_white_everywhere():
    assert opened(read_mask(a_mask(box=(0, 0, 64, 64)), LIMIT).data).getextrema() == (255, 255)


@pytest.mark.parametrize("data", [a_mask(box=None), saved(Image.new("L", (64, 64), 127))])
def test_a_mask_that_is_black_everywhere_is_refused(data):
    with pytest.raises(ImageRefused, match="black everywhere"):
        read_mask(data, LIMIT)


def test_a_mask_with_transparent_parts_is_refused_and_told_what_white_means():
    hole = Image.new("RGBA", (64, 64), "white")
    hole.putpixel((3, 3), (255, 255, 255, 254))
    with pytest.raises(ImageRefused, match="paint white what is to be made anew"):
        read_mask(saved(hole), LIMIT)
    keyed = saved(opened(a_mask()), transparency=255)
    with pytest.raises(ImageRefused, match="transparent"):
        read_mask(keyed, LIMIT)


def test_a_file_is_kept_as_it_came():
    for kind, data in READABLE.items():
        picture = read_file(data, LIMIT)
        assert (picture.data, picture.content_type) == (data, f"image/{kind}")


REFUSED = {
    "nothing": (b"", "no PNG, JPEG or WebP"),
    "text": (b"hello" * 100, "no PNG, JPEG or WebP"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no PNG, JPEG or WebP"),
    "gif": (saved(Image.new("P", (64, 64)), "gif"), "no PNG, JPEG or WebP"),
    "bmp": (saved(Image.new("RGB", (64, 64)), "bmp"), "no PNG, JPEG or WebP"),
    "tiff": (saved(Image.new("RGB", (64, 64)), "tiff"), "no PNG, JPEG or WebP"),
    "too many pixels": (png_of_size(129, 128), "129 x 128 pixels: at most 16384"),
    "a bomb": (png_of_size(60_000, 60_000), "pixels"),
    "a small bomb": (png_of_size(10_000, 9_000), "pixels"),
    "an empty png": (png_of_size(64, 64), "damaged"),
    "an animated png": (frames("png"), "several frames"),
    "an animated webp": (frames("webp"), "several frames"),
    "two pictures": (frames("mpo"), "several frames"),
    "cmyk": (a_photo(kind="jpeg", mode="CMYK"), "CMYK"),
    **{
        f"half a {kind}": (data[: len(data) // 2], "damaged|no PNG")
        for kind, data in READABLE.items()
    },
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_picture_is_refused_and_told_why(read, name):
    data, reason = REFUSED[name]
    with pytest.raises(ImageRefused, match=reason):
        read(data, LIMIT)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(READABLE)), st.data())
def test_a_picture_cut_short_is_refused_or_whole(kind, data):
    whole = READABLE[kind]
    kept = data.draw(st.integers(0, len(whole) - 1))
    with contextlib.suppress(ImageRefused):
        assert read_template(whole[:kept], LIMIT).sha256 == read_template(whole, LIMIT).sha256


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(READABLE)), st.data())
def test_a_picture_with_flipped_bytes_is_refused_or_read(kind, data):
    broken = bytearray(READABLE[kind])
    for at in data.draw(st.lists(st.integers(0, len(broken) - 1), min_size=1, max_size=8)):
        broken[at] = data.draw(st.integers(0, 255))
    for read in READS:
        with contextlib.suppress(ImageRefused):
            picture = read(bytes(broken), LIMIT)
            assert picture.width * picture.height <= LIMIT


@given(
    st.binary(max_size=300), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF"])
)
def test_any_bytes_are_refused_or_read(data, start):
    with contextlib.suppress(ImageRefused):
        read_template(start + data, LIMIT)


def test_a_jpeg_of_thousands_of_scans_is_refused_before_it_is_decoded():
    data = jpeg_of_scans(2400)
    assert len(data) < 100_000
    began = time.thread_time()
    with pytest.raises(ImageRefused, match="more than 32 scans"):
        read_template(data, 4096 * 4096)
    assert time.thread_time() - began < 2.0


def test_progressive_pictures_and_what_looks_like_scans_in_their_segments_are_taken():
    exif = Image.Exif()
    exif[0x010E] = "\xff\xda" * 50
    exif[0x0110] = b"\xff\xda" * 50
    photo = opened(a_photo(96, 96))
    for options in ({"progressive": True}, {"exif": exif}, {"progressive": True, "exif": exif}):
        data = saved(photo, "jpeg", **options)
        assert read_file(data + b"\xff\xda" * 99, LIMIT).width == 96  # what follows it is not read


@pytest.mark.parametrize("bomb", [text_bomb, profile_bomb], ids=lambda bomb: bomb.__name__)
def test_what_unpacks_to_far_more_is_refused(bomb):
    data = bomb()
    tracemalloc.start()
    with contextlib.suppress(ImageRefused):
        read_template(data, LIMIT)
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()
