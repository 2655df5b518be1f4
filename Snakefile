# The whole study: config.yaml → cubins → recordings → tables and fits → figures → report.
#
#     snakemake report --cores 4                        (`make report` also sets up the environment)
#     snakemake report --cores 4 --config scope=full    (`make report STUDY=full`)

import sys
from study.config import load
from study.config_file import files, named, read
from base.errors import StudyError

CONFIG_FILES = ["config.yaml", *map(str, workflow.overwrite_configfiles)]  # of --configfile
# Snakemake's own reading loses values of config.local.yaml, and its errors contain no line or key.
try:
    load("config.yaml")
    for name in {*workflow.config_settings.config} - {"scope"}:
        raise StudyError(
            f"--config {name}: use scope=quick or scope=full; --configfile sets others"
        )
    given = config.get("scope")  # of `--config scope=full`
    config.clear()
    config.update(read(*CONFIG_FILES))
except StudyError as error:
    sys.exit(f"error: {error}")
CONFIG_NAMES = named(*CONFIG_FILES)
workflow.configfiles += files("config.yaml")  # shown by `make provenance`


# The description of the workflow in `make provenance`.
report: "workflow/provenance.rst"


# Used only with --software-deployment-method apptainer: the study runs in .venv, and measurements
# should run on the bare host.
container: "docker://python:3.11-bookworm"


# On a cluster these run on Snakemake's host: they need the output of all nodes.
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
        # All inputs of the report are listed: Snakemake does not recreate a missing file if the
        # files made from it exist.
        tables=rules.tables.output,
        figures=rules.figures.output,
        recordings=RECORDINGS,
        cubins=CUBINS,
        counts=COUNTS,
        ranges=rules.ranges.output,
    message:
        "The study is complete"
