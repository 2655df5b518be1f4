# From recordings and the published times to tables, fits, figures and the report. Each rule names the
# code that it runs, so that a change of a colour draws the figures again and fits no model.

COMPUTING = ["__init__", "__main__", "domain", "schema", "table_names", "tables"]
ANALYSIS = [Path(path) for path in sources("analysis")]
ARCHIVE, RENDER = Path("analysis/archive"), Path("analysis/render")


def code(*kinds):
    """Return the Python files of the analysis that are of these kinds, see `kind`."""
    return [str(path) for path in ANALYSIS if kind(path) in kinds]


def kind(path):
    """Tell what a file of the analysis is for: archive, compute, draw, render or (both) show."""
    if ARCHIVE in path.parents:
        return "archive"
    if RENDER in path.parents:
        return "show" if path.name.startswith(("style", "svg")) else "render"
    if path.parent == Path("analysis"):
        return "compute" if path.stem in COMPUTING else "show"
    return "draw" if path.stem == "figures" else "compute"


rule tables:
    input:
        published="data/published/times.csv",
        systems="data/published/systems.csv",
        statements="data/published/statements.csv",
        recordings=RECORDINGS,
        measured=MEASURED_SOURCES,  # a change of one makes recordings stale
        cubins=CUBINS,
        counts=COUNTS,
        code=code("compute"),
    output:
        [f"results/tables/{name}.csv" for name in TABLES],
    log:
        "results/logs/tables.log",
    params:
        recordings=recording_options(),
    message:
        "Computing tables, gains, models and break-even sizes"
    shell:
        "python -m analysis tables --published {input.published} --systems {input.systems}"
        " --statements {input.statements} {params.recordings} --cubins {input.cubins}"
        " --counts {input.counts} --out results/tables 2>&1 | tee {log} >&2"


rule figures:
    input:
        tables=rules.tables.output,
        code=code("draw", "show"),
    output:
        directory("results/figures"),
    log:
        "results/logs/figures.log",
    message:
        "Drawing figures"
    shell:
        "python -m analysis figures --tables results/tables --out {output} 2>&1 | tee {log} >&2"


rule render:
    input:
        tables=rules.tables.output,
        figures=rules.figures.output,
        recordings=RECORDINGS,
        template=files_below("report"),
        citation="CITATION.cff",
        code=code("render", "show", "archive"),
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    params:
        recordings=recording_options(),
        tree=git(),  # named in the page
    message:
        "Writing {output}"
    shell:
        "python -m analysis report --tables results/tables --figures {input.figures}"
        " {params.recordings} --template report --out {output} 2>&1 | tee {log} >&2"
