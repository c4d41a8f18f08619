import pytest

from core.errors import EngineError
from zoo.demo.typed import Shell

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def shell(tmp_path):
    return Shell(folder=tmp_path, url="http://127.0.0.1:4711", environment={"KEY": "of the test"})


def test_a_variable_that_a_line_sets_is_there_in_later_blocks(shell):
    shell.type("OWN=$(echo 1)\nexport OTHER='[\"2\"]'")
    assert shell.type("echo $OWN $OTHER $KEY") == '1 ["2"] of the test\n'


def test_the_last_id_that_was_printed_stands_for_what_is_left_out(shell):
    assert shell.type(f"echo {ID[::-1]} {ID}\necho <id>").splitlines()[-1] == ID


def test_the_service_is_called_where_it_is(shell):
    assert shell.type("echo localhost:8000/v1 http://127.0.0.1:8000").split() == [
        "http://127.0.0.1:4711/v1",
        "http://127.0.0.1:4711",
    ]
    assert shell.run_python("print('http://localhost:8000/v1')") == "http://127.0.0.1:4711/v1\n"


def test_a_line_goes_on_behind_a_backslash(shell):
    assert shell.type("echo one \\\n  two") == "one two\n"


@pytest.mark.parametrize("script", ["false\necho on", "false | cat\necho on", "echo $NOT_SET"])
def test_a_line_that_fails_ends_the_page(shell, script):
    with pytest.raises(EngineError, match="ended with 1"):
        shell.type(script)
