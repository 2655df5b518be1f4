# Live recordings. A measuring job has the machine to itself: it asks for more threads than there are,
# which Snakemake scales down to all of them. Never add retries or a cache here.


rule measure:
    input:
        cubins=lambda wildcards: cubins(ARCHITECTURES[wildcards.gpu]),
        measured=[path for path in MEASURED_SOURCES if path.endswith(".c")],
        code=sources("measurement"),
        cpu=sources("cpu_reference"),
    output:
        recording_files_in("results/recordings/{gpu}"),
    log:
        "results/logs/measure/{gpu}.log",
    wildcard_constraints:
        gpu="|".join(re.escape(name) for name in LIVE) or "none",
    threads: 1024
    resources:
        gpu=1,
    params:
        device=lambda wildcards: device_options(LIVE[wildcards.gpu]),
        study=STUDY,  # not in the command: a change of it measures again
    message:
        "Measuring {wildcards.gpu}, alone"
    shell:
        "python -m measurement record --config results/config.yaml {params.device}"
        " --cubins results/cubins --out results/recordings/{wildcards.gpu} 2>&1 | tee {log} >&2"
