# From recordings and the published times to tables, fits, figures and the report. Each rule names the
# code that it runs, so that a change of a colour draws the figures again and fits no model.

FIGURE_CODE = matching("analysis/drawing/*.py", "analysis/*/figures.py", "analysis/*/plots.py")
PAGE_CODE = matching("analysis/render/*.py", "analysis/archive/citation.py")
TABLE_CODE = set(sources("analysis")) - {
    *FIGURE_CODE,
    *PAGE_CODE,
    *matching("analysis/archive/*.py"),
}

FOCUS = f"--focus {shlex.quote(CONFIG.report.focus)}" if CONFIG.report.focus else ""


rule tables:
    input:
        published="data/published/times.csv",
        systems="data/published/systems.csv",
        statements="data/published/statements.csv",
        recordings=RECORDINGS,
        measured=MEASURED_SOURCES,  # a change of one makes recordings stale
        cubins=CUBINS,
        counts=COUNTS,
        code=sorted(TABLE_CODE),
    output:
        [f"results/tables/{name}.csv" for name in TABLES],
    log:
        "results/logs/tables.log",
    params:
        recordings=recording_options(),
    message:
        "Computing tables, speedups, models and break-even sizes"
    shell:
        "python -m analysis tables --published {input.published} --systems {input.systems}"
        " --statements {input.statements} {params.recordings} --cubins {input.cubins}"
        " --counts {input.counts} --out results/tables 2>&1 | tee {log} >&2"


rule figures:
    input:
        tables=rules.tables.output,
        code=FIGURE_CODE,
    output:
        directory("results/figures"),
    log:
        "results/logs/figures.log",
    params:
        focus=FOCUS,
    message:
        "Drawing figures"
    shell:
        "python -m analysis figures --tables results/tables {params.focus} --out {output} 2>&1 | tee {log} >&2"


rule render:
    input:
        tables=rules.tables.output,
        figures=rules.figures.output,
        recordings=RECORDINGS,
        template=files_below("report"),
        citation="CITATION.cff",
        code=PAGE_CODE,
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    params:
        recordings=recording_options(),
        focus=FOCUS,
        tree=git(),  # named in the page
    message:
        "Writing {output}"
    shell:
        "python -m analysis report --tables results/tables --figures {input.figures}"
        " {params.recordings} {params.focus} --template report --out {output} 2>&1 | tee {log} >&2"
