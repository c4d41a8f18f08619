import subprocess
import sys

PROGRAM = """
import gc
from worker.diffusion.imports import bring
tree = bring("html.parser")
held = gc.get_freeze_count()
assert tree.HTMLParser and held and gc.isenabled()
bring("xml.dom.minidom")
assert 0 < gc.get_freeze_count() <= held
try:
    bring("no.such.module")
except ModuleNotFoundError:
    assert gc.isenabled()
"""


def test_only_what_comes_first_is_out_of_the_collectors_reach():
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=60).returncode == 0
