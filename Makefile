# make report      everything: set-up, builds, measurements, tables, fits, figures, results/report.html
#                  STUDY=full measures the whole study, STUDY=quick what the three answers need; without,
#                  it is what was measured before, at first the quick one
# make watch       the same, and again after every edit of a template, a style or a figure
# make reproduce   rebuild tables and report, compare every conclusion with the published ones;
#                  SESSION=DIR adds a recording of this machine, PUBLISH=1 writes the published ones
# make provenance  the same, and how it came to be, by Snakemake: results/provenance.html
# make ro-crate    the same, packed with inputs and workflow for an archive: results/ro-crate.zip
# make bundle      what records on a host without a network: results/bundle.tar.gz; for its GPUs name
#                  their architectures, as in ARCHITECTURES="sm_90 sm_89"
# make check       the same set-up, then the fast tests, in less than a minute
# make test        the same set-up, then all tests except the exhaustive ones
# make test-all    the same set-up, then all tests
# make site        the documents as a website: results/site/index.html
# make lint        the linters and formatters, checking only
# make audit       look up known vulnerabilities of all locked packages; needs PyPI
# make clean       remove what was generated; .venv stays
#
# Needs python 3.11 or newer, gcc, g++ and make. A GPU and a CUDA toolkit are used where they are found.

CORES ?= $(shell nproc)
# The shell must not read the folder's name as code, so recipes name it by its variable.
RUN := PATH="$$PWD/.venv/bin:$$PATH"
STUDY_RUN = .venv/bin/gemm-study report --cores $(CORES) $(if $(STUDY),--$(STUDY))
$(if $(filter-out quick full,$(STUDY)),$(error STUDY=$(STUDY) is unknown; use quick or full))
# What the set-up installs besides what every report needs (see workflow/set-up.sh).
LAYERS = $(if $(filter full,$(STUDY)),compiler)
# Without bytecode, each of a run's many processes would compile its libraries for seconds. The others
# replace modules.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME
export PYTHONUTF8 = 1

.PHONY: report watch reproduce provenance ro-crate bundle check test test-all site lint audit clean setup lock

report: setup
	@$(STUDY_RUN)

watch: setup
	@$(STUDY_RUN) --watch

reproduce: setup
	@.venv/bin/gemm-study reproduce $(if $(SESSION),--session "$$SESSION") $(if $(PUBLISH),--publish)

provenance: report
	@$(RUN) snakemake report --cores $(CORES) --report results/provenance.html \
	  >results/logs/provenance.log 2>&1 || { echo "error: $$(tail -n 1 results/logs/provenance.log)" \
	  "(see results/logs/provenance.log)" >&2; exit 1; }
	@echo "How it came to be: $$PWD/results/provenance.html"

ro-crate: LAYERS += crate
ro-crate: report
	@$(STUDY_RUN) crate
	@echo "The crate: $$PWD/results/ro-crate.zip"

bundle: LAYERS += $(if $(ARCHITECTURES),compiler gpu)
bundle: setup
	@.venv/bin/gemm-study bundle $(if $(ARCHITECTURES),--architecture $(ARCHITECTURES))

# Tests open the report in Chromium and run the study on Slurm, if these are installed.
# Some tests wait for processes, so `make test` uses one more worker than there are cores.
check: WORKERS = $(CORES)
test test-all: WORKERS = $(shell expr $(CORES) + 1)
test-all: export FUZZ_CASES ?= 10000
check test test-all: PYTEST = pytest --numprocesses $(WORKERS) --dist loadfile
check test test-all: LAYERS += test compiler $(if $(shell PATH="$$PATH:/usr/sbin" command -v slurmctld),slurm) $(if $(shell command -v chromium || command -v chromium-browser || \
  command -v google-chrome),browser)
check: setup
	@$(RUN) $(PYTEST) -m "not slow and not exhaustive"

test: setup
	@$(RUN) $(PYTEST)

test-all: setup
	@$(RUN) $(PYTEST) -m ""

site: LAYERS += site
site: setup
	@$(RUN) sphinx-build -W --keep-going -q -c docs . results/site
	@cp results/site/README.html results/site/index.html
	@echo "The site: $$PWD/results/site/index.html"

lint: LAYERS += dev
lint: setup
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) mypy
	@$(RUN) snakemake --lint
	@$(RUN) snakefmt --check Snakefile workflow/rules
	@$(RUN) clang-format --style=file:kernels/.clang-format --dry-run --Werror kernels/*.cu cpu_reference/*.c \
	  kernels/host_execution/*.h kernels/host_execution/*.cpp

# --strict: a package of which nothing is known there has not been checked.
audit: LAYERS += dev
audit: setup
	@$(RUN) uv export --quiet --frozen --all-extras --all-groups --no-emit-project --output-file .venv/audited.txt
	@$(RUN) pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r .venv/audited.txt

clean:
	rm -rf results .snakemake

setup:
	@sh workflow/set-up.sh $(LAYERS)

# Renews uv.lock from pyproject.toml, and the hashes of uv itself. The lock names PyPI alone.
# A lock that an edit of pyproject.toml made stale stops the set-up, but uv is in place by then.
lock:
	@test -x .venv/bin/uv || $(MAKE) setup || test -x .venv/bin/uv
	$(RUN) uv lock --upgrade --default-index https://pypi.org/simple
	$(RUN) uv export --quiet --frozen --only-group build --no-emit-project --no-header --no-annotate \
	  --output-file workflow/uv.txt
