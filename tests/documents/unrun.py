"""Blocks of pages that no test runs as they stand, each with its reason. All others are run."""

#: Page, or page and the start of a block -> why. What they name is checked all the same.
UNRUN = {
    ("README.md", "make install"): "installs and does not end; its commands are run below",
    ("README.md", "openssl rand"): "starts a service that does not end; docs/tenants.md is run",
    ("README.md", "export ATELIER_API_KEY"): "needs Prometheus and a checkpoint of gigabytes",
    ("CONTRIBUTING.md", ""): "what CI runs itself",
    ("docs/index.md", "make install"): "installs and does not end",
    ("docs/cells.md", ""): "needs two cells; tests/e2e/test_cells.py evacuates one of them",
    ("docs/client.md", "pip install"): "installs; tests/unit/atelier_client builds and installs it",
    ("docs/failover.md", "redis-cli"): "needs three machines; bench.faults --only failover",
    ("docs/gpu.md", ""): "needs a GPU; tests/unit/bench/test_on_gpu.py runs `make gpu DRY=1`",
    ("docs/ip-adapters.md", ""): "needs an IP-Adapter of gigabytes; tests make small ones",
    (
        "docs/kubernetes.md",
        "",
    ): "needs a cluster; tests/e2e/test_kubernetes.py starts what is in it",
    ("docs/load.md", ""): "hours of load; tests/unit/loadgen tries its kinds for seconds",
    ("docs/models.md", ""): "needs checkpoints of gigabytes; tests make small ones",
    ("docs/operations.md", ""): "needs Docker and Prometheus; tests/integration/test_alerts.py",
    ("docs/page.md", ""): "needs node; a unit test compares what is built with its sources",
    ("docs/promises.md", "(mkdir"): "measures for minutes with `atelier profile`",
    ("docs/simulate.md", ""): "needs traces; tests/unit/cli/commands run it at a small size",
    ("docs/sizing.md", ""): "tests/unit/cli/commands/test_plan.py runs them at a small size",
    ("docs/supply-chain.md", ""): "needs an index or Docker; unit tests read locks and workflow",
    ("docs/tenants.md", "openssl rand"): "set before the service of the test starts",
    ("docs/zoo.md", ""): "trainings of hours; tests/unit/zoo run them at a small size",
}


def reason(page: str, start: str) -> str | None:
    """Say why a block is not run; None if it is."""
    found = [
        why for (named, begins), why in UNRUN.items() if named == page and start.startswith(begins)
    ]
    return found[0] if found else None
