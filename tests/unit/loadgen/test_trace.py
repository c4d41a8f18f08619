import csv
import io
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigurationError
from loadgen.trace import parse_trace, read_trace
from loadgen.trace_columns import FIELDS, MAX_NAMES

PROMPTS = ["a red circle", "a blue square"]


def requests(lines):
    return list(parse_trace(lines, PROMPTS).requests())


def test_a_row_says_when_and_what():
    (ask,) = requests(["at_s,prompt,steps,model", "1.5,a green star,12,"])
    assert (ask.at_s, ask.prompt) == (1.5, "a green star")
    assert ask.body == {"prompt": "a green star", "steps": 12, "seed": 0}


def test_a_row_says_everything_that_a_request_can_ask_for():
    header = "at,application,model,steps,n,prompt,mask_ratio,loras,controls,width,height,cancel_s"
    (ask,) = requests(
        [
            f"{header},priority,quality,guidance",
            "3,shop,xl,8,2,a ring,0.25,2,1,64,32,9,batch,exact,4",
        ]
    )
    assert ask.body == {
        "seed": 0,
        "application": "shop",
        "model": "xl",
        "steps": 8,
        "n": 2,
        "prompt": "a ring",
        "width": 64,
        "height": 32,
        "priority": "batch",
        "quality": "exact",
        "guidance": 4.0,
    }
    assert (ask.mask_ratio, ask.loras, ask.controls, ask.cancel_s) == (0.25, 2, 1, 9.0)


def test_rows_without_a_prompt_take_turns():
    asks = requests(["at_s", "0", "1", "2"])
    assert [ask.prompt for ask in asks] == ["a red circle", "a blue square", "a red circle"]
    mixed = requests(["at,prompt", "0,", "1,a star", "2,"])
    assert [ask.prompt for ask in mixed] == ["a red circle", "a star", "a red circle"]


def test_rows_of_the_older_name_are_played_in_the_order_of_their_time():
    asks = requests(["at_s,steps", "2,3", "0.5,1", "1,2"])
    assert [(ask.at_s, ask.body["steps"]) for ask in asks] == [(0.5, 1), (1.0, 2), (2.0, 3)]


def test_a_trace_played_twice_as_fast_takes_half_the_time(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("\ufeffat_s\n2\n4\n", encoding="utf-8")
    assert read_trace(path, PROMPTS, speed=2.0).at_s.tolist() == [1.0, 2.0]


def test_what_a_row_leaves_open_is_what_the_command_line_says():
    workload = parse_trace(["at_s,steps,model", "0,12,", "1,,b"], PROMPTS)
    asks = list(workload.filled(model="a", steps=4).requests())
    assert [(ask.body["model"], ask.body["steps"]) for ask in asks] == [("a", 12), ("b", 4)]
    assert "application" not in asks[0].body


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["prompt", "x"], "at"),
        (["at_s,colour", "1,red"], "colour"),
        (["at_s,steps", "1,5", "2,many"], "line 3: steps"),
        (["at_s,steps", "1,1_0"], "line 2: steps"),
        (["at_s", "soon"], "line 2: at_s"),
        (["at_s", "nan"], "line 2"),
        (["at_s", "inf"], "line 2"),
        (["at_s", "-1"], "line 2"),
        (["at", "1", "2", "1.5"], "line 4: at: 1.5 is before"),
        (["at,at_s", "1,1"], "one column"),
        (["at,at", "1,1"], "twice"),
        (["at,n", "1"], "line 2: 1 cells under 2 columns"),
        (["at,n", "1,2,3"], "line 2: 3 cells under 2 columns"),
        (["at,mask_ratio", "1,1.5"], "line 2: mask_ratio"),
        (["at,loras", "1,-1"], "line 2: loras"),
        (["at,quality", "1,fine"], "line 2: quality: 'fine' is none of"),
        (["at,seed", "1," + "9" * 5000], "line 2: seed"),
        (["at,model", "1," + "m" * 500], "line 2: model"),
        (["at,prompt", '1,"never closed'], "line 2"),
        ([], "at"),
    ],
)
def test_a_trace_that_cannot_be_read_says_where(lines, named):
    with pytest.raises(ConfigurationError, match=named):
        parse_trace(lines, PROMPTS)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"at\n\xff\xfe\n", "line 1"),
        (b"at,prompt\n0," + b"x" * 70_000 + b"\n", "more than 65536 bytes"),
        (b"at\n" + b"\0" * 200_000, "more than 65536 bytes"),
        (b"\x89PNG\r\n\x1a\n", "line 1"),
    ],
)
def test_bytes_that_are_no_trace_are_refused(tmp_path, data, named):
    path = tmp_path / "trace.csv"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=named):
        read_trace(path, PROMPTS)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="absent"):
        read_trace(tmp_path / "absent.csv", PROMPTS)


def test_a_file_without_end_is_refused_in_little_memory():
    tracemalloc.start()
    try:
        with pytest.raises(ConfigurationError, match="line 1"):
            read_trace(Path("/dev/zero"), PROMPTS)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_more_requests_than_there_is_room_for_are_refused():
    with pytest.raises(ConfigurationError, match="line 102: more than 100"):
        parse_trace(["at", *("0" for _ in range(101))], PROMPTS, most=100)


def test_a_row_takes_tens_of_bytes():
    rows = (f"{i},3,2,0.5" for i in range(20_000))
    tracemalloc.start()
    try:
        parse_trace(iter(["at,steps,n,mask_ratio", *rows]), PROMPTS)
        assert tracemalloc.get_traced_memory()[1] < 20_000 * 250
    finally:
        tracemalloc.stop()


def test_names_without_end_are_refused():
    rows = [f"0,m{i}" for i in range(MAX_NAMES + 1)]
    with pytest.raises(ConfigurationError, match=f"more than {MAX_NAMES} different names"):
        parse_trace(["at,model", *rows], PROMPTS)


letters = st.characters(codec="utf-8", exclude_categories=["C"]).filter(str.isprintable)
words = st.text(letters, max_size=20)
VALUES = {
    "model": words.map(str.strip),
    "application": words.map(str.strip),
    "prompt": words.map(str.strip),
    "steps": st.integers(1, 10_000),
    "n": st.integers(1, 1000),
    "loras": st.integers(0, 100),
    "mask_ratio": st.floats(0, 1),
    "cancel_s": st.floats(0, 1e6),
    "deadline_s": st.floats(0, 1e6),
    "priority": st.sampled_from(["interactive", "batch", ""]),
}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_written_is_read_again(data):
    columns = data.draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))
    ats = sorted(data.draw(st.lists(st.floats(0, 1e6), max_size=8)))
    rows = [[at, *(data.draw(VALUES[name]) for name in columns)] for at in ats]
    text = io.StringIO()
    csv.writer(text).writerows([["at", *columns], *rows])
    found = parse_trace(io.StringIO(text.getvalue()), PROMPTS)
    assert found.at_s.tolist() == ats
    for place, name in enumerate(columns, start=1):
        wanted = [row[place] for row in rows]
        if name in FIELDS:
            read = getattr(found, FIELDS[name].column).tolist()
        elif name in {"priority", "deadline_s"}:
            read = ["" if each is None else each for each in found.others[name]]
        elif name == "prompt":
            turns = (PROMPTS[i % 2] for i in range(len(rows)))
            wanted = [text or turn for text, turn in zip(wanted, turns, strict=True)]
            read = [found.prompts[i] for i in found.prompt]
        else:
            names = getattr(found, f"{name}s")
            read = ["" if i < 0 else names[i] for i in getattr(found, name)]
        assert read == wanted


cells = st.one_of(
    st.text(max_size=12), st.sampled_from(["at", "at_s", "n", "1", "-1", "nan", '"', ""])
)


@given(st.lists(st.lists(cells, max_size=4).map(",".join), max_size=6))
@settings(max_examples=150, deadline=None)
def test_whatever_a_file_holds_it_is_a_workload_or_a_refusal_that_names_a_line(lines):
    try:
        found = parse_trace(lines, PROMPTS)
    except ConfigurationError as error:
        assert "line " in str(error)
    else:
        assert np.all(np.diff(found.at_s) >= 0) and not np.isnan(found.at_s).any()
        assert math.isfinite(found.duration_s)
