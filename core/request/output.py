"""What an image is written as: its format, and how much a lossy one keeps. Pure."""

from dataclasses import dataclass
from enum import StrEnum

#: Of lossy formats, where a client does not choose.
DEFAULT_QUALITY = 90


class OutputFormat(StrEnum):
    """What images are written as."""

    PNG = "png"  #: every pixel as it was made
    WEBP = "webp"  #: lossy, read by every browser
    JPEG = "jpeg"  #: lossy, read by everything
    AVIF = "avif"  #: lossy, the smallest, the slowest to write

    @property
    def is_lossy(self) -> bool:
        return self is not OutputFormat.PNG

    @property
    def ending(self) -> str:
        """Name the end of a key or a file, without its dot."""
        return "jpg" if self is OutputFormat.JPEG else self.value

    @property
    def content_type(self) -> str:
        """Name it over HTTP."""
        return f"image/{self.value}"

    @property
    def max_side(self) -> int | None:
        """Pixels of the longest side that the format can say; None: more than any model makes."""
        return {OutputFormat.WEBP: 16383, OutputFormat.JPEG: 65535}.get(self)

    @classmethod
    def of_key(cls, key: str) -> "OutputFormat":
        """Tell what an image was written as by the end of its key."""
        ending = key.rpartition(".")[2]
        return next((each for each in cls if each.ending == ending), cls.PNG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the images of a job are written as."""

    format: OutputFormat = OutputFormat.PNG
    quality: int | None = None  #: of lossy formats, 1 to 100

    @classmethod
    def of(cls, format_: OutputFormat, quality: int | None) -> "Output":
        """Fill in what a client has left open."""
        if not format_.is_lossy:
            return cls(format=format_)
        return cls(format=format_, quality=DEFAULT_QUALITY if quality is None else quality)

    @property
    def ending(self) -> str:
        """Name the end of a key, without its dot."""
        return self.format.ending

    @property
    def is_rough(self) -> bool:
        """Whether what is written may look worse than what was made."""
        return self.quality is not None and self.quality < DEFAULT_QUALITY


#: Every pixel as it was made.
LOSSLESS = Output()
