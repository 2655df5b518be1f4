# Memory accesses of each variant: run on the CPU, checked bit for bit, and counted at small sizes; by
# the theory that was found exact there at the others (see `study.counting.plan`).

from study.counting import plan

# Also of what a quick study leaves out here: it was measured elsewhere.
COUNTS = [f"results/counts/{one.stem}.csv" for one in plan(WHOLE.study, None)]


rule count:
    input:
        kernels=[path for path in MEASURED_SOURCES if path.endswith(".cu")],
        code=[*sources("kernels"), *sources("study")],
        runtime=[path for path in files_below("kernels") if path.endswith((".cpp", ".h"))],
    output:
        COUNTS,
    log:
        "results/logs/count.log",
    threads: 1024  # all cores, see rule measure
    params:
        study=STUDY,  # not in the command: it stands in the configuration in force
    message:
        "Counting memory accesses of the kernels"
    shell:
        "python -m study count --config results/config.yaml --jobs {threads}"
        " --out results/counts 2>&1 | tee {log} >&2"
