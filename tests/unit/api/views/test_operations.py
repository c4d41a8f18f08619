from api.views.operations import OPERATIONS, operations_of
from run.api import create_app


def test_every_operation_has_a_name_of_its_own_and_no_other_is_named(stack):
    document = create_app(stack.settings).openapi()
    named = {row: operation["operationId"] for row, operation in operations_of(document)}
    assert named == OPERATIONS
    assert len(set(named.values())) == len(named)
    assert all(name.isidentifier() for name in named.values())
