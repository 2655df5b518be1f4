# The study as an RO-Crate: workflow, inputs, results and provenance in one file.


rule crate:
    input:
        report=rules.render.output.page,
        tables=rules.tables.output,
        recordings=RECORDINGS,
        published=files_below("data/published"),
        tree=files_below(*FOLDERS),
        files=FILES,
    output:
        "results/ro-crate.zip",
    log:
        "results/logs/crate.log",
    params:
        recordings=recording_options(),
        study=config,  # a change packs again
        commit=git(),
    message:
        "Packing {output}"
    shell:
        "python -m workflow crate --config results/config.yaml --tables results/tables"
        " --report {input.report} {params.recordings} --out {output} 2>&1 | tee {log} >&2"
