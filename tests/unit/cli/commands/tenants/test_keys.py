import pytest

from cli.client.times import read_seconds
from cli.main import main


@pytest.mark.parametrize(
    ("given", "seconds"), [("45s", 45), ("90m", 5400), ("12h", 43_200), ("30d", 2_592_000)]
)
def test_times_are_read_with_their_unit(given, seconds):
    assert read_seconds("--expires", given) == seconds


@pytest.mark.parametrize("given", ["", "30", "d", "-1d", "1.5h", "forever"])
def test_a_time_without_a_unit_is_refused_by_its_option(given, capfd):
    with pytest.raises(SystemExit) as end:
        main(["keys", "rotate", "k1", f"--overlap={given}"])
    assert end.value.code == 2
    assert "--overlap" in capfd.readouterr().err
