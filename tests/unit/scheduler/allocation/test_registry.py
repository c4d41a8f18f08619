import subprocess
import sys

import pytest

from core.errors import ConfigurationError
from scheduler.allocation.allocate import allocate
from scheduler.allocation.registry import find_policy
from scheduler.routing.classify import OneClass


def test_a_policy_is_found_by_its_name() -> None:
    assert find_policy("program") is allocate


def test_who_only_names_policies_imports_no_compiler() -> None:
    code = "import scheduler.allocation.registry, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_an_unknown_policy_names_the_variable_and_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"ATELIER_POLICY.*atelier"):
        find_policy("best")
    with pytest.raises(ConfigurationError, match=r"^policy: 'best' is none of atelier"):
        find_policy("best", option="policy")


def test_without_a_trained_classifier_every_prompt_is_of_one_class() -> None:
    assert OneClass().classify(["a cat", "two red circles"]) == ["any", "any"]
