"""Everything that is sent, in the order in which it is."""

from collections.abc import Sequence
from typing import Final

from bench.hostility.input import Input
from bench.hostility.inputs.bodies import BODIES
from bench.hostility.inputs.documents import DOCUMENTS
from bench.hostility.inputs.facades import FACADES
from bench.hostility.inputs.files import EMBEDDINGS, PICTURES, WEIGHTS
from bench.hostility.inputs.forms import FORMS
from bench.hostility.inputs.heads import HEADS
from bench.hostility.inputs.leaving import LEAVING
from bench.hostility.inputs.names import NAMES
from bench.hostility.inputs.operators import OPERATORS
from bench.hostility.inputs.queries import QUERIES

INPUTS: Final[Sequence[Input]] = (
    *WEIGHTS, *EMBEDDINGS, *HEADS, *BODIES, *DOCUMENTS, *NAMES, *QUERIES, *FORMS, *FACADES,
    *OPERATORS, *PICTURES, *LEAVING,
)  # fmt: skip
