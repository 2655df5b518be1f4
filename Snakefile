# The study from end to end: config.yaml → cubins → recordings → tables and fits → figures → report.
#
#     snakemake report --cores 4                        (`make report` sets the environment up first)
#     snakemake report --cores 4 --config scope=full    (`make report STUDY=full`)

import sys
from pathlib import Path

from study.config import load
from base.errors import StudyError

try:  # read here first: Snakemake would name neither the line nor the key of a mistake
    load("config.yaml")
except StudyError as error:
    sys.exit(f"error: {error}")


configfile: "config.yaml"


if Path("config.local.yaml").exists():  # what this user has in the place of it

    configfile: "config.local.yaml"


# What `make provenance` says of the workflow.
report: "workflow/provenance.rst"


# Used on request only (--software-deployment-method apptainer): the study runs in .venv, and a
# measurement wants the bare host.
container: "docker://python:3.11-bookworm"


# On a cluster these run where Snakemake does: they need what all nodes have written.
localrules:
    report,
    tables,
    figures,
    render,
    crate,


include: "workflow/rules/common.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/count.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/publish.smk"


rule report:
    input:
        report=rules.render.output,
        # All that the report stands on is asked for by name: Snakemake does not make a missing file
        # again, not even after a failure, as long as what was once made from it is there.
        tables=rules.tables.output,
        figures=rules.figures.output,
        recordings=RECORDINGS,
        cubins=CUBINS,
        counts=COUNTS,
    message:
        "The study is complete"
