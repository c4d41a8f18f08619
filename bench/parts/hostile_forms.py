"""Write forms with files (multipart/form-data), those too that nobody should send. Pure."""

BOUNDARY = "boundary-of-a-hostile-form"
#: How a form says what it is.
FORM = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"


def part(name: str, value: bytes, filename: str | None = None, *headers: bytes) -> bytes:
    """Write one part of a form; with a `filename` it is a file."""
    said = f'Content-Disposition: form-data; name="{name}"'.encode()
    said += f'; filename="{filename}"'.encode() if filename is not None else b""
    return b"\r\n".join([b"--" + BOUNDARY.encode(), said, *headers, b"", value, b""])


def form(*parts: bytes) -> bytes:
    """Write a form of these parts."""
    return b"".join(parts) + b"--" + BOUNDARY.encode() + b"--\r\n"


def almost(count: int) -> bytes:
    """Write a file that is made of boundaries but for their last letters."""
    return f"\r\n--{BOUNDARY[:-1]}".encode() * count


def punycode(letters: int) -> bytes:
    """Write a text that, read as Punycode, inserts letters before all others, one by one."""
    return b"a" * letters + b"-" + b"0" * letters
