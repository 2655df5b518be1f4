# Live recordings. A measuring job has the machine to itself: it asks for more threads than there are,
# which Snakemake scales down to all of them. Never add retries or a cache here.

# A change of this code measures again. Comments, docstrings and texts of errors do not count.
MEASURING = [
    path
    for folder in ["cpu_reference", "measurement/devices", "measurement/sampling"]
    for path in sources(folder)
]


rule measure:
    input:
        cubins=lambda wildcards: cubins(ARCHITECTURES[wildcards.gpu]),
        measured=[path for path in MEASURED_SOURCES if path.endswith(".c")],
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
        code=lambda wildcards: code_digest(MEASURING),  # likewise
    message:
        "Measuring {wildcards.gpu}, alone"
    shell:
        "python -m measurement record --config results/config.yaml {params.device}"
        " --cubins results/cubins --out results/recordings/{wildcards.gpu} 2>&1 | tee {log} >&2"


# On a node of a cluster. It builds there: what was compiled for the CPU of another host may not run.
# A second attempt measures nothing; it says why the GPU is missing, for the report to tell.
rule measure_on_node:
    input:
        measured=MEASURED_SOURCES,
    output:
        "results/measured/{gpu}.json",
    log:
        "results/logs/measure/{gpu}.log",
    wildcard_constraints:
        gpu="|".join(re.escape(name) for name in CLUSTER) or "none",
    retries: 1
    resources:
        gpu=lambda wildcards, attempt: int(attempt == 1),
        gpu_model=lambda wildcards, attempt: CLUSTER[wildcards.gpu].slurm if attempt == 1 else "",
        slurm_extra=lambda wildcards, attempt: "--exclusive" if attempt == 1 else "",
        tries=lambda wildcards, attempt: attempt,
    params:
        study=STUDY,  # not in the command: a change of it measures again
        code=lambda wildcards: code_digest([*MEASURING, *sources("kernels/cubins")]),  # likewise
    message:
        "Measuring {wildcards.gpu} on a node of the cluster"
    shell:
        "python -m measurement.recorder.on_node {wildcards.gpu} --attempt {resources.tries}"
        " 2>&1 | tee {log} >&2"
