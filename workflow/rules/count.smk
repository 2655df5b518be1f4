# Memory accesses of each variant: counted at small sizes on the CPU, where products are also checked
# bit for bit; at other sizes by the theory that these counts confirm (see `study.counting.plan`).

from study.counting import plan

# Of the full study, because recordings contain all its variants.
COUNTS = [f"results/counts/{one.stem}.csv" for one in plan(WHOLE.study, None)]


rule count:
    input:
        kernels=KERNEL_SOURCES,
        code=sources("kernels", "study"),
        runtime=[path for path in files_below("kernels") if path.endswith((".cpp", ".h"))],
    output:
        COUNTS,
    log:
        "results/logs/count.log",
    threads: 1024  # all cores, see rule measure
    params:
        study=STUDY,  # a change counts again
    message:
        "Counting memory accesses of the kernels"
    shell:
        "python -m workflow count --config results/config.yaml --jobs {threads}"
        " --out results/counts 2>&1 | tee {log} >&2"


rule ranges:
    input:
        kernels=[path for path in KERNEL_SOURCES if "sgemm_t" in path],
        code=sources("kernels"),
        runtime=[path for path in files_below("kernels") if path.endswith((".cpp", ".h"))],
    output:
        "results/ranges.csv",
    log:
        "results/logs/ranges.log",
    message:
        "Computing errors of unusual values"
    shell:
        "python -m workflow ranges --out {output} 2>&1 | tee {log} >&2"
