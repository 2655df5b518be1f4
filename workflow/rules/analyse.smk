# From recordings and published times to tables, figures and the report. Each rule depends on the
# code that it runs: a change of a colour draws figures again, but fits no model.

PAGE_CODE = sources("analysis/render", "analysis/archive")
# Besides drawing, the module figures in the folder of each topic.
FIGURE_CODE = [
    path
    for path in sources("analysis")
    if path.startswith("analysis/drawing/") or Path(path).stem == "figures"
]
TABLE_CODE = sorted({"base/dictionary.txt", *files_below("analysis")} - {*PAGE_CODE, *FIGURE_CODE})

FOCUS = f"--focus {shlex.quote(CONFIG.report.focus)}" if CONFIG.report.focus else ""


rule tables:
    input:
        published="data/published/times.csv",
        systems="data/published/systems.csv",
        statements="data/published/statements.csv",
        recordings=RECORDINGS,
        measured=KERNEL_SOURCES + CPU_SOURCES,  # a change makes recordings stale
        cubins=CUBINS,
        counts=COUNTS,
        ranges=rules.ranges.output,
        code=TABLE_CODE,
    output:
        [f"results/tables/{name}.csv" for name in TABLES],
    log:
        "results/logs/tables.log",
    params:
        recordings=recording_options(),
        sizes=CONFIG.study.sizes,
    message:
        "Computing tables, speedups, models and break-even sizes"
    shell:
        "python -m workflow tables --published {input.published} --systems {input.systems}"
        " --statements {input.statements} {params.recordings} --cubins {input.cubins}"
        " --counts {input.counts} --ranges {input.ranges} --sizes {params.sizes}"
        " --out results/tables 2>&1 | tee {log} >&2"


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
        "python -m workflow figures --tables results/tables {params.focus} --out {output} 2>&1 | tee {log} >&2"


rule render:
    input:
        tables=rules.tables.output,
        figures=rules.figures.output,
        recordings=RECORDINGS,
        template=files_below("report"),
        kernels=KERNEL_SOURCES,  # shown in the report
        citation="CITATION.cff",
        code=PAGE_CODE,
    output:
        page=update("results/report.html"),  # the old one stays if this fails
        answers="results/report.txt",
    log:
        "results/logs/report.log",
    params:
        recordings=recording_options(),
        shown=f"{FOCUS} --baseline {CONFIG.report.baseline}",
        tree=git(),  # shown in the report
    message:
        "Writing {output.page}"
    shell:
        "python -m workflow page --tables results/tables --figures {input.figures}"
        " {params.recordings} {params.shown} --template report --out {output.page} 2>&1 | tee {log} >&2"
