"""List forms with files, for the routes that read them as OpenAI's and Replicate's clients do."""

import json
from functools import partial
from itertools import product

from bench.hostility.input import Input, Write, post
from bench.parts.hostile_files import jpeg_of_scans, png, profile_bomb, text_bomb
from bench.parts.hostile_forms import BOUNDARY, FORM, almost, form, part, punycode

MIB = 2**20
GIF = b"GIF89a" + bytes(100)
EDITS, FILES = "/v1/images/edits", "/v1/files"
PROMPT = part("prompt", b"a")
IMAGE = part("image", png(side=64), "a.png")


def sent(*parts: bytes, target: str = EDITS, kind: str = FORM, more: tuple[str, ...] = ()) -> Write:
    """Send a form."""
    body = form(*parts)
    return lambda known: post(known, target, body, kind, *more)


def bare(body: bytes, target: str = EDITS, kind: str = FORM) -> Write:
    """Send what is said to be a form."""
    return lambda known: post(known, target, body, kind)


def beside(name: str, value: bytes) -> Write:
    """Send an edit that is right but for one field."""
    return sent(PROMPT, IMAGE, part(name, value))


def masked(image: bytes, *masks: bytes) -> Write:
    """Send an edit of an image with masks."""
    each = [part("mask", mask, "m.png") for mask in masks]
    return sent(PROMPT, part("image", image, "a.png"), *each)


def named(name: str) -> bytes:
    """Write a form of a part with an odd name."""
    return form(PROMPT, part(name, b"x", "a.png"))


row = partial(Input, kind="forms", is_refused=True)

#: For every route that reads forms.
SHAPES = {
    "nothing": b"",
    "an end alone": form(),
    "no end": part("image", b"x", "a.png")[:-2],
    "a boundary that does not come": b"x" * MIB,
    "another boundary": form(IMAGE).replace(BOUNDARY.encode(), b"other"),
    "18 files": form(PROMPT, IMAGE * 18),
    "65 fields": form(part("a", b"b") * 65),
    "100,000 parts": part("a", b"") * 100_000,
    "100,000 empty files": part("a", b"", "b") * 100_000,
    "a field of 2 MB": form(part("prompt", b"a" * 2 * MIB)),
    "a name of 1 MB": named("a" * MIB),
    "a file name of 1 MB": form(part("image", b"x", "a" * MIB)),
    "1,000 headers of a part": form(part("image", b"x", "a", *[b"A: b"] * 1000)),
    "a header of 1 MB": form(part("image", b"x", "a", b"A: " + b"b" * MIB)),
    "30,000 options of a part": form(part("image", b"x", "a" + '"; b="c' * 600)),
    "no name": b"--" + BOUNDARY.encode() + b"\r\n\r\nx\r\n" + form(),
    "a form in a form": form(part("image", form(IMAGE), "a", b"Content-Type: multipart/mixed")),
    "boundaries almost": form(part("image", almost(200_000), "a.png")),
    "an encoding that unpacks": form(
        part("image", b"QQ==", "a.png", b"Content-Transfer-Encoding: base64")
    ),
}
SHAPED = tuple(
    row(name=f"a form of {name} to {target}", pieces=bare(body, target))
    for (name, body), target in product(SHAPES.items(), (EDITS, FILES))
)

CHARSETS = {
    "Punycode": ("punycode", part("prompt", punycode(60_000))),
    "IDNA": ("idna", part("prompt", b"xn--\xff" * 1000)),
    "no charset": ("undefined", PROMPT),
    "UTF-7": ("utf-7", part("prompt", b"+ACI-" * 50_000)),
    "UTF-32": ("utf-32", part("prompt", b"\xff" * 1001)),
    "an unknown charset": ("x" * 9000, part("prompt", b"\xff" * 1001)),
}
ENCODED = tuple(
    row(name=f"a form in {name}", pieces=sent(text, kind=f"{FORM}; charset={charset}"))
    for name, (charset, text) in CHARSETS.items()
)

SCANS = jpeg_of_scans(2400)
FIELDS = {
    "n of 1,000,000": ("n", b"1000000"),
    "n of 5,000 digits": ("n", b"9" * 5000),
    "n of 1e999": ("n", b"1e999"),
    "n of NaN": ("n", b"NaN"),
    "a size of 0x0": ("size", b"0x0"),
    "a size of 99999x99999": ("size", b"99999x99999"),
    "a size in Arabic digits": ("size", "٦٤x٦٤".encode()),
    "a thousand partial images": ("partial_images", b"1000"),
    "no such format": ("output_format", b"../../png"),
    "lists 100,000 deep": ("loras", b"[" * 100_000),
    "500,000 numbers": ("loras", b"[" + b"0," * 500_000 + b"0]"),
    "half a character in JSON": ("metadata", b'{"a":"\\ud800"}'),
    "a model of 1 MB": ("model", b"a" * (MIB - 1)),
    "a mask that is text": ("mask", b"data:;base64,AAAA"),
    "an image twice in text": ("image", b"https://169.254.169.254/"),
    "a template of our own": ("template", b"/etc/passwd"),
    "a webhook of our own": ("webhook", b'{"url":"http://127.0.0.1/"}'),
    "a prompt of 1 MB": ("prompt", b"a" * (MIB - 1)),
}
PARTS = tuple(
    row(name=f"a form with {told}", pieces=beside(name, value))
    for told, (name, value) in FIELDS.items()
)

FORMS = (
    *SHAPED, *ENCODED, *PARTS,
    row(
        name="8 fields of 500,000 numbers", pieces=sent(
            PROMPT, IMAGE, *[part(f"f{at}", b"[" + b"0," * 500_000 + b"0]") for at in range(8)]
        ),
    ),
    row(name="a boundary of 9,000 letters", pieces=bare(b"x", kind=FORM + "b" * 9000)),
    row(
        name="a form without a boundary",
        pieces=bare(b"x", kind="Content-Type: multipart/form-data"),
    ),
    row(
        name="a form of URL-encoded fields",
        pieces=bare(b"prompt=a&" * 1000, kind="Content-Type: application/x-www-form-urlencoded"),
    ),
    row(name="a form from no URL", pieces=sent(PROMPT, IMAGE, more=("Origin: http://[",))),
    row(name="a form from another site", pieces=sent(PROMPT, IMAGE, more=("Origin: http://evil",))),
    row(name="an edit that is opaque", pieces=masked(png(side=64)), says="transparent"),
    row(name="two masks", pieces=masked(png(side=64), png(side=64), png(side=64)), says="one file"),
    row(name="a mask of 2,400 scans", pieces=masked(png(side=64), SCANS), says="32 scans"),
    row(name="a mask of 30,000 x 30,000", pieces=masked(png(side=64), png(side=30_000)),
        says="at most 16777216"),
    row(name="a mask that is a GIF", pieces=masked(png(side=64), GIF), says="PNG, JPEG"),
    row(
        name="an image whose texts unpack", says="damaged",
        pieces=lambda known: masked(text_bomb())(known),
    ),
    row(
        name="a mask whose profile unpacks", says="damaged",
        pieces=lambda known: masked(png(side=64), profile_bomb())(known),
    ),
    row(name="8 MB of no image", pieces=masked(b"\0" * 8_000_000), says="PNG, JPEG"),
    row(
        name="40 forms of 8 MB", count=40, pieces=masked(b"\0" * 8_000_000),
    ),
    row(
        name="a file of 2,400 scans in a form", says="32 scans",
        pieces=sent(part("content", SCANS, "a.jpg"), target=FILES),
    ),
    row(
        name="two files where one is taken", says="one file",
        pieces=sent(part("content", b"x", "a") * 2, target=FILES),
    ),
    Input(
        kind="forms", name="metadata of 900 kB beside a file",
        pieces=sent(
            part("content", png(side=64), "../../\r\n\x1b[2J"),
            part("metadata", json.dumps({"a": "b" * 900_000}).encode()), target=FILES,
        ),
    ),
)  # fmt: skip
