"""Pictures as clients send them."""

import base64
from io import BytesIO

from PIL import Image

KINDS = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


def saved(image, kind="png", **options):
    written = BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def a_photo(width=64, height=64, kind="png", mode="RGB", **options):
    """Something with structure: no two corners look alike."""
    red = Image.linear_gradient("L").resize((width, height))
    green = red.transpose(Image.Transpose.FLIP_LEFT_RIGHT).rotate(90).resize((width, height))
    blue = Image.new("L", (width, height), 40)
    return saved(Image.merge("RGB", (red, green, blue)).convert(mode), kind, **options)


def a_mask(width=64, height=64, box=(8, 8, 24, 40), mode="L", colour="white"):
    image = Image.new("L", (width, height), 0)
    if box:
        image.paste(255, box)
    return saved(image.convert(mode))


def opened(data):
    image = Image.open(BytesIO(data))
    image.load()
    return image


def data_url(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
