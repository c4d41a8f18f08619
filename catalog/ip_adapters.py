"""Read the IP-Adapters on disk: one folder each, its `atelier.json` beside stock's files."""

from pathlib import Path

import msgspec
from safetensors import SafetensorError, safe_open

from catalog.models import FILE
from core.codec import decode
from core.errors import ConfigurationError
from core.uploads.ip_adapter import IpAdapter

#: Folder of the image encoder in that of an IP-Adapter, as stock expects it.
ENCODER = "image_encoder"
#: Names by which the kinds that are served are known: plain, and plus.
_KINDS = ({"image_proj.proj.weight"}, {"image_proj.latents", "image_proj.proj_in.weight"})
_ONLY = "its kind (FaceID, full-face) is not served: use a plain or a plus IP-Adapter"


def read_ip_adapters(folder: Path) -> dict[str, IpAdapter]:
    """Read every IP-Adapter of a folder, by name; its own folder has that name too.

    Raises:
        ConfigurationError: a file is absent, cannot be read, names another folder, or is of a kind
            that is not served; it names the file.
    """
    found: dict[str, IpAdapter] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            adapter = decode(path.read_bytes(), IpAdapter)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if adapter.name != path.parent.name:
            raise ConfigurationError(f"{path}: its folder must be named {adapter.name!r}")
        _check(path.parent)
        found[adapter.name] = adapter
    return found


def _check(folder: Path) -> None:
    """Look for what stock loads beside the description. Raises: ConfigurationError."""
    file, encoder = weights_of(folder), folder / ENCODER / "config.json"
    if fault := _why_not(file):
        raise ConfigurationError(f"{file}: {fault}")
    if not encoder.is_file():
        need = "is missing: put the image encoder that the adapter was trained with there"
        raise ConfigurationError(f"{encoder}: {need}")


def weights_of(folder: Path) -> Path:
    """Find the one file of weights of an IP-Adapter. Raises: ConfigurationError."""
    files = sorted(folder.glob("*.safetensors"))
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise ConfigurationError(f"{folder}: needs one .safetensors file, and has {names}")
    return files[0]


def _why_not(file: Path) -> str | None:
    """Say why a file is no IP-Adapter that is served, if it is none."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            names = set(tensors.keys())
    except (SafetensorError, OSError) as error:
        return f"truncated or not safetensors: {error}"
    if not any(name.endswith(".to_k_ip.weight") for name in names):
        return "is no IP-Adapter: it has no to_k_ip.weight"
    is_served = any(kind <= names for kind in _KINDS)
    return None if is_served else _ONLY
