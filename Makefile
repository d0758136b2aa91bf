PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup run test coverage test-portable check results clean

setup: $(VENV)/.installed

# The folder is part of this rule on purpose: `venv` over an existing folder repairs a half-made one.
$(VENV)/.installed: pyproject.toml constraints.txt dev-requirements.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("symshare needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11")'
	@echo "Installing into $(VENV): about 2 GB, a few minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[data,experiments]" -r dev-requirements.txt
	$(BIN)/python -m pip check
	@touch $@

run: setup
	$(BIN)/symshare discover digits --transform quarter

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

# To watch every line costs time: 208 CPU seconds in the place of 128 for tests/test_judge.py.
coverage: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term:skip-covered --cov-fail-under=90

# Processors round sums in other orders: torch's kernels for the oldest, for AVX2, and this one's.
NUMERICS := $(wildcard $(addsuffix *.py,$(addprefix tests/test_,analysis convert groups layers projection representations sinkhorn)))
test-portable: setup
	for capability in default avx2 ""; do \
		export ATEN_CPU_CAPABILITY=$$capability; test "$$capability" || unset ATEN_CPU_CAPABILITY; \
		$(BIN)/python -c 'import torch; print("torch computes with", torch.backends.cpu.get_cpu_capability())'; \
		$(BIN)/python -m pytest -q -n 2 --dist loadfile $(NUMERICS) || exit 1; \
	done

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python

# Goes on from docs/results.json; DATA holds the folders mnist and cifar10.
results: setup
	@test -n "$(DATA)" || { echo "make results DATA=DIR, a folder with mnist and cifar10"; exit 1; }
	mkdir -p runs/experiments/cpu
	test -e runs/experiments/cpu/results.json || cp docs/results.json runs/experiments/cpu/
	@test ! docs/results.json -nt runs/experiments/cpu/results.json || { echo "docs/results.json is newer than runs/experiments/cpu/results.json; move that folder away first"; exit 1; }
	$(BIN)/python -m experiments all --data.root $(DATA)
	cp runs/experiments/cpu/results.json runs/experiments/cpu/results.md docs/

clean:
	rm -rf build dist .coverage .pytest_cache .ruff_cache .import_linter_cache .mypy_cache
	find src experiments benchmarks examples tests -name __pycache__ -type d -prune -exec rm -rf {} +
