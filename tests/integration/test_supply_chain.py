"""Bills of materials name what the locks pin, with its hashes."""

import json
import subprocess
import sys

import pytest

from tests.unit.ops.compose import ROOT
from tests.unit.ops.test_images import LOCKED, pins

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_a_bill_of_each_image_names_all_that_is_installed():
    subprocess.run(["make", "sbom", f"PYTHON={sys.executable}"], cwd=ROOT, check=True)
    for image in LOCKED:
        bill = json.loads((ROOT / "sbom" / f"{image}.cdx.json").read_text())
        assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
        assert bill["metadata"]["component"]["name"] == "atelier-images"
        found = {each["name"].lower(): each for each in bill["components"]}
        assert {name: each["version"] for name, each in found.items()} == pins(image)
        for each in found.values():
            assert each["purl"].startswith("pkg:pypi/")
            assert [hashed["alg"] for hashed in each["externalReferences"][0]["hashes"]]
