import json

import pytest
import torch

from worker.masking.recording import DamagedRecording, Recording, StepFile, pack, read_blocks


def recording(*steps, seed=0):
    """A recording of two blocks at some steps."""
    generator = torch.Generator().manual_seed(seed)
    made = Recording()
    for position in steps:
        outputs = {name: torch.randn(3, 2, generator=generator) for name in ("first", "last")}
        made.keep(position, outputs)
    return made


def written(made, folder, *positions):
    """The same with some steps in files in place of memory."""
    files = {at: folder / f"{at}" for at in positions}
    for at, path in files.items():
        path.write_bytes(pack(made.steps[at]))
    kept = {at: step for at, step in made.steps.items() if at not in files}
    return Recording(steps=kept, files=files)


def test_a_recording_is_told_by_the_last_block_of_its_last_step_wherever_that_is(tmp_path) -> None:
    made = recording(0, 1)
    assert made.fingerprint == made.steps[1]["last"].checksum
    for positions in ([1], [0], [0, 1]):
        assert written(made, tmp_path, *positions).fingerprint == made.fingerprint
    assert recording(0, 1, seed=1).fingerprint != made.fingerprint


def test_a_file_that_others_had_no_room_for_was_never_recorded(tmp_path) -> None:
    kept = written(recording(0, 1), tmp_path, 1)
    assert kept.covers(range(2))
    kept.files[1].unlink()
    assert kept.covers(range(1)) and not kept.covers(range(2))


def test_what_cannot_be_read_has_no_fingerprint(tmp_path) -> None:
    assert Recording().fingerprint == ""
    assert Recording(steps={1: recording(1).steps[1]}).fingerprint
    kept = written(recording(0), tmp_path, 0)
    kept.files[0].write_bytes(b"damaged")
    assert kept.fingerprint == ""
    kept.files[0].write_bytes(pack({}))
    assert kept.fingerprint == ""


def test_a_file_gives_its_blocks_in_any_order_and_tells_its_sizes(tmp_path) -> None:
    made = recording(0)
    path = written(made, tmp_path, 0).files[0]
    with StepFile(path) as file:
        assert file.sizes == {"first": (3, 2), "last": (3, 2)}
        assert file.last_checksum == made.steps[0]["last"].checksum
    for names in (None, ["last", "first"]):
        found = dict(read_blocks(path, names))
        assert list(found) == (names or ["first", "last"])
        assert all(each.checksum == made.steps[0][name].checksum for name, each in found.items())
    with pytest.raises(DamagedRecording, match="other"):
        list(read_blocks(path, ["other"]))


def test_a_file_without_a_schema_is_of_the_first_and_one_of_a_later_is_refused(tmp_path) -> None:
    path = written(recording(0), tmp_path, 0).files[0]
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])

    def rewrite(schema):
        own = {name: value for name, value in header["__metadata__"].items() if name == "crc32"}
        changed = header | {"__metadata__": own | ({} if schema is None else {"schema": schema})}
        text = json.dumps(changed).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])

    for schema in (None, "1"):
        rewrite(schema)
        assert len(list(read_blocks(path))) == 2
    rewrite("99")
    with pytest.raises(DamagedRecording):
        list(read_blocks(path))
