# Live recordings. A measuring job runs alone: it requests more threads than there are, which Snakemake
# reduces to all. Never add retries or a cache here.

# A change of this code measures again, except changes of comments, docstrings and error messages.
MEASURING = sources("cpu_reference", "measurement/devices", "measurement/sampling")


rule measure:
    input:
        cubins=lambda wildcards: cubins(ARCHITECTURES[wildcards.gpu]),
        measured=CPU_SOURCES,
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
        study=STUDY,  # a change measures again
        code=lambda wildcards: code_digest(MEASURING),
    message:
        "Measuring {wildcards.gpu}, alone"
    shell:
        "python -m workflow record --config results/config.yaml {params.device}"
        " --cubins results/cubins --out results/recordings/{wildcards.gpu} 2>&1 | tee {log} >&2"


# On a cluster node, where it also builds: code compiled for another CPU may not run. Attempt 2 only
# writes why the GPU is missing.
rule measure_on_node:
    input:
        measured=KERNEL_SOURCES + CPU_SOURCES,
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
        study=STUDY,
        code=lambda wildcards: code_digest([*MEASURING, *sources("kernels/cubins")]),
    message:
        "Measuring {wildcards.gpu} on a cluster node"
    shell:
        "python -m workflow node {wildcards.gpu} --attempt {resources.tries}"
        " 2>&1 | tee {log} >&2"
