"""Write files that are small to send and dear to read: headers of weights, and pictures. Pure."""

import json
import struct
import zlib
from collections.abc import Mapping

SIDE = 4096  #: of pictures: as many pixels as are taken
#: Passes of an interlaced PNG: first column, step, first row, step.
ADAM7 = (
    *((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4)),
    *((0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)),
)


def weights(header: bytes, data: bytes = b"") -> bytes:
    """Write a safetensors file with this header."""
    return struct.pack("<Q", len(header)) + header + data


def tensor(shape: object = (1,), dtype: str = "F32", end: int = 4) -> dict[str, object]:
    """Describe one tensor as headers do."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


def tensors(named: Mapping[str, object], data: bytes = b"\0" * 4) -> bytes:
    """Write a safetensors file with these tensors."""
    return weights(json.dumps(named).encode(), data)


def lora_of(count: int) -> bytes:
    """Write a LoRA of `count` tensors that no model has."""
    named = {
        f"unet.l{at}.lora_A.weight": {
            "dtype": "F32",
            "shape": [1],
            "data_offsets": [4 * at, 4 * at + 4],
        }
        for at in range(count)
    }
    return tensors(named, bytes(4 * count))


def jpeg_of_scans(scans: int, side: int = SIDE) -> bytes:
    """Write a progressive JPEG, grey and empty, with so many scans of a few bytes each."""
    frame = _segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + bytes([1, 0x11, 0]))
    quantization = _segment(0xDB, bytes([0]) + bytes([1] * 64))
    end_of_bands = _segment(0xC4, bytes([0x10, 1] + [0] * 15 + [0xE0]))
    blocks = (side // 8) ** 2
    empty = bytes(-(-blocks // 2**14) * 15 // 8 + 1)  # zeros: the bands of 2**14 blocks end
    scan = _segment(0xDA, bytes([1, 1, 0, 1, 63, 0])) + empty
    return b"\xff\xd8" + quantization + frame + end_of_bands + scan * scans + b"\xff\xd9"


def _segment(marker: int, data: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def png(*chunks: tuple[bytes, bytes], side: int = 64, height: int = 0) -> bytes:
    """Write a grey PNG with these chunks before its pixels, all of which are black."""
    high = height or side
    head = struct.pack(">IIBBBBB", side, high, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + bytes(side)) * high) if side * high <= SIDE**2 else b""
    parts = [(b"IHDR", head), *chunks, (b"IDAT", pixels), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def text_bomb(count: int = 100) -> bytes:
    """Write a PNG whose texts unpack to a thousand times their size."""
    packed = zlib.compress(bytes(10 * 2**20))
    return png(*[(b"zTXt", b"Comment\0\0" + packed)] * count)


def profile_bomb() -> bytes:
    """Write a PNG whose colour profile unpacks to a thousand times its size."""
    return png((b"iCCP", b"p\0\0" + zlib.compress(bytes(50 * 2**20))))


def exif_bomb(entries: int = 60_000, size: int = 2**20) -> bytes:
    """Write a PNG whose Exif has that many entries, all of the same large bytes."""
    end = 8 + 2 + 12 * entries + 4
    listed = b"".join(struct.pack("<HHII", at + 1, 7, size, end) for at in range(entries))
    exif = b"II*\0" + struct.pack("<IH", 8, entries) + listed + bytes(4 + size)
    return png((b"eXIf", exif))


def many_chunks(count: int = 500_000) -> bytes:
    """Write a PNG whose head has that many empty chunks."""
    return png(*[(b"teST", b"")] * count)


def deep_png(side: int = SIDE, *, is_interlaced: bool = False) -> bytes:
    """Write a PNG of 16 bits a channel with transparency, eight bytes a pixel and all of them 0."""
    head = struct.pack(">IIBBBBB", side, side, 16, 6, 0, 0, int(is_interlaced))
    passes = ADAM7 if is_interlaced else ((0, 1, 0, 1),)
    packer, packed = zlib.compressobj(), []
    for x, dx, y, dy in passes:
        row = bytes(1 + 8 * len(range(x, side, dx)))
        packed += [packer.compress(row) for _ in range(y, side, dy)]
    packed.append(packer.flush())
    parts = [(b"IHDR", head), (b"IDAT", b"".join(packed)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def webp(side: int) -> bytes:
    """Write the head of a WebP of at most 16,384 pixels a side, and no pixels."""
    bits = (side - 1) | (side - 1) << 14
    data = b"\x2f" + struct.pack("<I", bits) + bytes(16)
    chunk = b"VP8L" + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def jpeg_with(marker: int, data: bytes) -> bytes:
    """Write a small JPEG with so many bytes in segments of one kind, such as profiles."""
    whole = jpeg_of_scans(1, side=64)
    step = 60_000
    parts = [_segment(marker, data[at : at + step]) for at in range(0, len(data), step)]
    return whole[:2] + b"".join(parts) + whole[2:]
