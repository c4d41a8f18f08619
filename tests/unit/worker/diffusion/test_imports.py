import subprocess
import sys

PROGRAM = """
import gc
from worker.diffusion.imports import first_imports
with first_imports():
    import html.parser
    assert not gc.isenabled()
held = gc.get_freeze_count()
assert held and gc.isenabled()
with first_imports():
    import xml.dom.minidom
assert 0 < gc.get_freeze_count() <= held
try:
    with first_imports():
        import no_such_module
except ModuleNotFoundError:
    assert gc.isenabled()
"""


def test_only_what_comes_first_is_out_of_the_collectors_reach():
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=60).returncode == 0
