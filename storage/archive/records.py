"""A job's record as a row of the archive, and back: field by field as Redis had it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.codec import decode, encode

Fields = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A job that ended a while ago."""

    id: str
    fields: Fields  #: of its hash

    @property
    def created_at_ms(self) -> int:
        return int(self.fields[b"created_at"])

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands in lists, which begin with the highest."""
        return self.created_at_ms, self.id


def write_row(job: Archived) -> dict[str, object]:
    """Write a record as columns."""
    fields = {name.decode(): value.decode() for name, value in job.fields.items()}
    return {
        "id": job.id,
        "tenant": fields["tenant"],
        "status": fields["status"],
        "is_buried": "buried" in fields,
        "created_at": int(fields["created_at"]),
        "finished_at": int(fields["finished_at"]),
        "bytes": int(fields.get("bytes", 0)),
        "record": encode(fields).decode(),
    }


def read_row(job_id: str, record: str) -> Archived:
    """Read columns as a record."""
    fields = decode(record, dict[str, str])
    return Archived(id=job_id, fields={k.encode(): v.encode() for k, v in fields.items()})


def flat(fields: Fields) -> Sequence[bytes]:
    """Lay a record out as HGETALL answers it."""
    return [word for pair in fields.items() for word in pair]
