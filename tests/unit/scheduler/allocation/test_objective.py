import pytest

from scheduler.allocation.allocate import allocate
from scheduler.allocation.objective import mean_quality, saturation, value
from tests.unit.scheduler.allocation.test_allocate import an_instance


def test_what_nobody_serves_has_no_quality_and_costs_its_price() -> None:
    instance = an_instance(1, (("base",), 1.8))
    allocation = allocate(instance)
    assert mean_quality(instance, allocation) == pytest.approx(1.0)
    assert saturation(instance, allocation) == pytest.approx(0.5)
    assert value(instance, allocation) == pytest.approx(0.5 - 0.5 * 20.0)


def test_without_demand_nothing_is_expected() -> None:
    instance = an_instance(1)
    allocation = allocate(instance)
    assert mean_quality(instance, allocation) is None
    assert (saturation(instance, allocation), value(instance, allocation)) == (0.0, 0.0)
