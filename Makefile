# make report      everything: set-up, builds, measurements, tables, fits, figures, results/report.html
# make provenance  the same, and how it came to be, by Snakemake: results/provenance.html
# make ro-crate    the same, packed with inputs and workflow for an archive: results/ro-crate.zip
# make test        the same set-up, then the tests
# make lint        the linters and formatters, checking only
# make clean       remove what was generated; .venv stays
#
# Needs python 3.11 or newer, gcc, g++ and make. A GPU and a CUDA toolkit are used where they are found.

CORES ?= 4
# Candidates, of which the first that runs is taken: a name may stand for what is not installed.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
RUN := PATH="$(CURDIR)/.venv/bin:$$PATH"

.PHONY: report provenance ro-crate test lint clean setup lock

report: setup
	@$(RUN) snakemake report --cores $(CORES) --quiet host reason --rerun-incomplete
	@echo "The report: $(CURDIR)/results/report.html"

provenance: report
	@$(RUN) snakemake report --cores $(CORES) --quiet all --report results/provenance.html
	@echo "How it came to be: $(CURDIR)/results/provenance.html"

ro-crate: LAYERS := crate
ro-crate: report
	@$(RUN) snakemake crate --cores $(CORES) --quiet host reason
	@echo "The crate: $(CURDIR)/results/ro-crate.zip"

# Where there is a Chromium, the report is opened in it.
test: LAYERS := $(if $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),browser)
test: setup
	@$(RUN) pytest --numprocesses auto --maxprocesses $(CORES) --dist loadfile

lint: LAYERS := dev
lint: setup
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) mypy
	@$(RUN) snakemake --lint
	@$(RUN) snakefmt --check Snakefile workflow/rules
	@$(RUN) clang-format --dry-run --Werror kernels/*.cu cpu_reference/*.c \
	  kernels/host_execution/*.h kernels/host_execution/*.cpp

clean:
	rm -rf results .snakemake

setup:
	@for python in $(PYTHON); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    exec $$python workflow/environment.py $(LAYERS); fi; done; \
	echo "error: no Python 3.11 or newer runs here; install one, or name it: make PYTHON=/path/to/python3" >&2; \
	exit 2

# Renews every lock from pyproject.toml.
LOCK := uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --fork-strategy fewest --no-header --no-annotate
lock: setup
	$(RUN) $(LOCK) pyproject.toml --group test -o requirements.lock
	$(RUN) $(LOCK) pyproject.toml --group test --group dev --extra crate -c requirements.lock -o requirements-dev.lock
	$(RUN) $(LOCK) --group browser -c requirements.lock -o requirements-browser.lock
	$(RUN) $(LOCK) pyproject.toml --group test --extra gpu -c requirements.lock -o requirements-gpu.lock
	$(RUN) $(LOCK) pyproject.toml --extra crate -c requirements.lock -o requirements-crate.lock
	for group in compiler disassembler build uv; do \
	  $(RUN) $(LOCK) --group $$group -o requirements-$$group.lock || exit; done
