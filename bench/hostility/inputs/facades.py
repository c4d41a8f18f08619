"""List what OpenAI's and Replicate's clients would never send to the routes made for them."""

import json
from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.hostility.input import JSON, Input, Write, get, post
from bench.parts.hostile_files import jpeg_of_scans, png

MIB = 2**20
GENERATIONS, PREDICTIONS = "/v1/images/generations", "/v1/predictions"
OF_MODEL = "/v1/models/atelier/shapes-m/predictions"
VERSION = "atelier/shapes-m"
SCANS = jpeg_of_scans(2400)


def data_url(image: bytes, kind: str = "image/png") -> str:
    """Write an image into a request."""
    return f"data:{kind};base64,{b64encode(image).decode()}"


def generation(**said: object) -> Write:
    """Ask OpenAI's way."""
    body = json.dumps({"prompt": "a", **said}).encode()
    return lambda known: post(known, GENERATIONS, body)


def prediction(target: str = PREDICTIONS, *headers: str, **said: object) -> Write:
    """Ask Replicate's way."""
    whole = {"version": VERSION, **said} if target == PREDICTIONS else said
    body = json.dumps(whole).encode()
    return lambda known: post(known, target, body, JSON, *headers)


def given(**said: object) -> Write:
    """Ask Replicate's way, with an input."""
    return prediction(input={"prompt": "a", **said})


row = partial(Input, kind="facades", is_refused=True)
may = partial(Input, kind="facades", hold_s=0.5, is_cut=True)

OF_OPENAI: Mapping[str, Mapping[str, Any]] = {
    "n of -1": {"n": -1},
    "n of 2**63": {"n": 2**63},
    "n of 10**300": {"n": 10**300},
    "n of true": {"n": True},
    "a size of 1 MB": {"size": "1" * MIB},
    "a size of 65536x65536": {"size": "65536x65536"},
    "a size with a line": {"size": "64x64\n"},
    "a quality that is none": {"quality": "best"},
    "a compression of a PNG": {"output_compression": 7},
    "a compression of 101": {"output_format": "jpeg", "output_compression": 101},
    "no such format": {"output_format": "svg"},
    "a transparent background": {"background": "transparent"},
    "4 partial images": {"stream": True, "partial_images": 4},
    "a model upwards": {"model": "../../etc/passwd"},
    "a user of 1 MB": {"user": "a" * MIB},
    "a prompt of 1 MB": {"prompt": "a" * MIB},
    "a prompt of a list": {"prompt": ["a"] * 5000},
    "our own template": {"template": "a", "mask": "b", "task": "edit"},
    "a seed of 2**70": {"seed": 2**70},
    "6,000 LoRAs": {"loras": [{}] * 6000},
    "metadata 150 deep": {"metadata": json.loads('{"a":' * 150 + "1" + "}" * 150)},
    "1,500 unknown fields": {f"{'x' * 90}{at}": 1 for at in range(1500)},
}
OF_REPLICATE: Mapping[str, Mapping[str, Any]] = {
    "an input of 65 fields": {f"f{at}": 1 for at in range(65)},
    "a seed of 2**70": {"seed": 2**70},
    "a seed of 10**300": {"seed": 10**300},
    "outputs of 10**9": {"num_outputs": 10**9},
    "an input in the input": {"input": {"input": {}}},
    "a webhook in the input": {"webhook": {"url": "http://127.0.0.1/"}},
    "steps that are a mapping": {"num_inference_steps": {"a": 1}},
    "an image of 2,400 scans": {"image": data_url(SCANS, "image/jpeg")},
    "an image that is no base64": {"image": "data:;base64," + "!" * MIB},
    "an image that is no image": {"image": data_url(b"\0" * MIB)},
    "an image that is SVG": {"image": "data:image/svg+xml,<svg/>"},
    "an image by a path": {"image": "/etc/passwd"},
    "an image by file://": {"image": "file:///etc/passwd"},
    "an image of the cloud": {"image": "http://169.254.169.254/latest/meta-data"},
    "an image of this machine": {"image": "https://[::ffff:127.0.0.1]/"},
    "an image by a number": {"image": "https://2130706433/"},
    "an image by no URL": {"image": "https://[/"},
    "an image of 30,000 x 30,000": {"image": data_url(png(side=30_000))},
    "a mask without an image": {"mask": data_url(png())},
    "a mask that is a number": {"image": data_url(png()), "mask": 10**300},
    "a name of 1 MB": {"a" * MIB: 1},
    "a list of 19,000 numbers": {"seed": [0] * 19_000},
}
VERSIONS = (
    "",
    "a" * MIB,
    "../../etc/passwd",
    "atelier/shapes-m:" + "0" * 64,
    ":" * 200,
    "atelier/" * 20,
    "\x00",
    "owner/shapes-m\r\nX: y",
)
PREFER = (
    "wait=-1",
    "wait=1e999",
    "wait=" + "9" * 5000,
    "wait, " * 900,
    "wait=\xb2",
    "respond-async; wait=0",
)
#: Where webhooks must not go; what has a name instead of a number is refused when it is looked up.
INSIDE = (
    "http://127.0.0.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://[::1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/",
    "http://localhost/",
    "https://user:secret@127.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "https://[/",
    "https://a:99999999/",
    "https://\x00/",
    "https:///nobody",
    "https://a b/",
    "javascript:alert(1)",
    "https://" + "a" * MIB,
)


def hook(url: str) -> Write:
    """Submit a job that says of itself where it must not."""
    body = json.dumps({"prompt": "a", "webhook": {"url": url}}).encode()
    return lambda known: post(known, "/v1/jobs", body)


def keyed(count: int, *headers: str) -> Input:
    """Submit the same request many times at once, under one key."""
    body = b'{"prompt":"a"}'
    return Input(
        kind="facades",
        name=f"{count} submits with one idempotency key",
        count=count,
        pieces=lambda known: post(known, "/v1/jobs", body, JSON, *headers),
    )


FACADES = (
    *(row(name=f"a generation with {name}", pieces=generation(**said))
      for name, said in OF_OPENAI.items()),
    *(row(name=f"a prediction with {name}", pieces=given(**said))
      for name, said in OF_REPLICATE.items()),
    *(row(name=f"a prediction of the version {version[:24]!r}",
          pieces=prediction(version=version, input={"prompt": "a"})) for version in VERSIONS),
    *(may(name=f"a prediction that prefers {prefer[:24]!r}",
          pieces=prediction(OF_MODEL, f"Prefer: {prefer}", input={"prompt": "a"}))
      for prefer in PREFER),
    *(row(name=f"a webhook to {url[:44]!r}", pieces=hook(url)) for url in INSIDE),
    *(row(name=f"a prediction's webhook to {url[:44]!r}",
          pieces=prediction(input={"prompt": "a"}, webhook=url)) for url in INSIDE[:5]),
    row(name="5,000 events of a prediction", pieces=prediction(
        input={"prompt": "a"}, webhook="https://a.test/", webhook_events_filter=["start"] * 5000)),
    row(name="a prediction without an input that is one", pieces=prediction(input=[1, 2])),
    keyed(100, "Idempotency-Key: the-same"),
    row(name="another request with that key", says="differs", pieces=lambda known: post(
        known, "/v1/jobs", b'{"prompt":"b"}', JSON, "Idempotency-Key: the-same")),
    row(name="an empty idempotency key", says="1 to 255", pieces=lambda known: post(
        known, "/v1/jobs", b'{"prompt":"b"}', JSON, "Idempotency-Key: ")),
    row(name="an idempotency key that is no ASCII", says="1 to 255", pieces=lambda known: post(
        known, "/v1/jobs", b'{"prompt":"b"}', JSON, "Idempotency-Key: \xe9")),
    may(name="100 generations that leave", count=100, pieces=generation()),
    may(name="100 streams of partial images that leave", count=100,
        pieces=generation(stream=True, partial_images=3)),
    may(name="100 predictions that wait and leave", count=100,
        pieces=prediction(PREDICTIONS, "Prefer: wait=60", input={"prompt": "a"})),
    *(may(name=f"{count} streams of a prediction", count=count,
          pieces=lambda known: get(known, f"/v1/predictions/{known.job}/stream"))
      for count in (1, 200)),
)  # fmt: skip
