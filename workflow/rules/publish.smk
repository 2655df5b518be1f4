# The study as an RO-Crate: workflow, inputs, results and their provenance in one file.


rule crate:
    input:
        report=rules.render.output,
        tables=rules.tables.output,
        recordings=RECORDINGS,
        published=files_below("data/published"),
        tree=[
            path
            for folder in [
                "analysis",
                "base",
                "cpu_reference",
                "kernels",
                "measurement",
                "report",
                "study",
                "workflow",
            ]
            for path in files_below(folder)
        ],
        files=[
            *["Snakefile", "Makefile", "pyproject.toml", "uv.lock"],
            *["README.md", "LICENSE", "CITATION.cff"],
        ],
    output:
        "results/ro-crate.zip",
    log:
        "results/logs/crate.log",
    params:
        recordings=recording_options(),
        study=config,  # in the file of the configuration in force
        commit=git(),
    message:
        "Packing {output}"
    shell:
        "python -m analysis crate --config results/config.yaml --tables results/tables"
        " --report {input.report} {params.recordings} --out {output} 2>&1 | tee {log} >&2"
