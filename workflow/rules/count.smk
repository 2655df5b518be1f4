# Memory accesses of each variant: run on the CPU, checked bit for bit, and counted at small orders; by
# the theory that was found exact there at the others (see `kernels.counts.plan`).

from kernels.counts import plan
from measurement.counters import BLOCK_SIZES, ORDER

COUNTINGS = {one.stem: one for one in plan(CONFIG.study, ORDER, BLOCK_SIZES)}
COUNTS = [f"results/counts/{stem}.csv" for stem in COUNTINGS]


rule count:
    input:
        kernel=lambda wildcards: variant(COUNTINGS[wildcards.kernel].variant).source,
        code=sources("kernels"),
        runtime=[path for path in files_below("kernels") if path.endswith((".cpp", ".h"))],
    output:
        "results/counts/{kernel}.csv",
    log:
        "results/logs/count/{kernel}.log",
    wildcard_constraints:
        kernel="|".join(COUNTINGS),
    params:
        kernel=lambda wildcards: COUNTINGS[wildcards.kernel].options,
        counted=lambda wildcards: list(map(str, COUNTINGS[wildcards.kernel].counted)),
        predicted=lambda wildcards: list(map(str, COUNTINGS[wildcards.kernel].predicted)),
    message:
        "Counting memory accesses of {wildcards.kernel}"
    shell:
        "python -m kernels count {params.kernel} --size {params.counted}"
        " --theory-size {params.predicted} --out {output} 2>&1 | tee {log} >&2"
