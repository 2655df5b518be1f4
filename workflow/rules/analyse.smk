# From recordings and the published times to tables, fits, figures and the report.


rule tables:
    input:
        published="data/published/times.csv",
        systems="data/published/systems.csv",
        recordings=RECORDINGS,
        measured=MEASURED_SOURCES,  # a change of one makes recordings stale
        cubins=CUBINS,
        counts=COUNTS,
        code=sources("analysis"),
    output:
        [
            f"results/tables/{name}.csv"
            for name in [
                *[f"table{number}" for number in range(1, 7)],
                *[
                    "summary",
                    "gains",
                    "cards",
                    "threats",
                    "recordings",
                    "checks",
                    "builds",
                    "environment",
                ],
                *["telemetry", "batches", "cold_starts", "ceilings", "phases", "neighbours"],
                *["agreement", "agreement_cells", "counts", "counts_by_line"],
                *["machine_code", "ladder", "roofline", "claims", "limits", "systems"],
                *["cpu_hosts", "cpu_clock", "cpu_ladder", "cpu_roofline", "cpu_split"],
            ]
        ],
    log:
        "results/logs/tables.log",
    params:
        recordings=recording_options(),
    message:
        "Computing tables, gains and their intervals"
    shell:
        "python -m analysis tables --published {input.published} --systems {input.systems}"
        " {params.recordings} --cubins {input.cubins} --counts {input.counts} --out results/tables 2>&1 | tee {log} >&2"


rule fit:
    input:
        published="data/published/times.csv",
        recordings=RECORDINGS,
        code=sources("analysis"),
    output:
        [
            f"results/tables/{name}.csv"
            for name in [
                *["models", "model_comparison", "model_steps", "model_predictions"],
                "model_ratios",
            ]
        ],
    log:
        "results/logs/fit.log",
    params:
        recordings=recording_options(),
    message:
        "Fitting models to published and measured times"
    shell:
        "python -m analysis fit --published {input.published} {params.recordings}"
        " --out results/tables 2>&1 | tee {log} >&2"


rule decide:
    input:
        recordings=RECORDINGS,
        code=sources("analysis"),
    output:
        [
            f"results/tables/{name}.csv"
            for name in [
                *["predictors", "transfers", "transfer_points", "curves", "break_even"],
                "predictions",
            ]
        ],
    log:
        "results/logs/decide.log",
    params:
        recordings=recording_options(),
    message:
        "Fitting copies and break-even orders"
    shell:
        "python -m analysis decide {params.recordings} --out results/tables 2>&1 | tee {log} >&2"


rule audit:
    input:
        published="data/published/times.csv",
        statements="data/published/statements.csv",
        code=sources("analysis"),
    output:
        [
            f"results/tables/audit_{name}.csv"
            for name in ["cells", "constants", "pairs", "headline", "cpu"]
        ],
    log:
        "results/logs/audit.log",
    message:
        "Auditing the published numbers"
    shell:
        "python -m analysis audit --published {input.published} --statements {input.statements}"
        " --out results/tables 2>&1 | tee {log} >&2"


rule figures:
    input:
        tables=rules.tables.output,
        fits=rules.fit.output,
        audit=rules.audit.output,
        decisions=rules.decide.output,
        code=sources("analysis"),
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
        fits=rules.fit.output,
        audit=rules.audit.output,
        decisions=rules.decide.output,
        figures=rules.figures.output,
        recordings=RECORDINGS,
        template=files_below("report"),
        citation="CITATION.cff",
        code=sources("analysis"),
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
