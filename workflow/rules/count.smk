# Memory accesses of each variant and block size. The kernels are run on the CPU and checked bit for
# bit at two small orders, of which one takes the build with bounds checks wherever it can, and at the
# order at which cards count too, if it is one of the study; the counts at its other orders come from
# the theory that was found exact there.

from kernels.catalog import block_sizes, variant
from kernels.host_execution.check import MAX_THREADS
from measurement.counters import BLOCK_SIZES as COUNTER_BLOCK_SIZES
from measurement.counters import ORDER as COUNTER_ORDER

COUNTED_SIZES = [64, 70]
KERNELS = {
    f"{name}{'' if block_size is None else f'-b{block_size}'}": (name, block_size)
    for name in config["study"]["variants"]
    for block_size in block_sizes(name, config["study"]["block_sizes"])
}
# The study's orders at which each can be launched; some have a thread for each row or column.
STUDIED = {
    kernel: [
        n
        for n in sorted([*config["study"]["sizes"], *config["study"]["holdout_sizes"]])
        if block_size is not None or n <= MAX_THREADS
    ]
    for kernel, (_, block_size) in KERNELS.items()
}
COUNTED = {
    kernel: COUNTED_SIZES
    + [
        n
        for n in STUDIED[kernel]
        if n == COUNTER_ORDER and (block_size is None or block_size in COUNTER_BLOCK_SIZES)
    ]
    for kernel, (_, block_size) in KERNELS.items()
}
COUNTS = [f"results/counts/{kernel}.csv" for kernel in KERNELS]


rule count:
    input:
        kernel=lambda wildcards: variant(KERNELS[wildcards.kernel][0]).source,
        code=sources("kernels"),
        runtime=[path for path in files_below("kernels") if path.endswith((".cpp", ".h"))],
    output:
        "results/counts/{kernel}.csv",
    log:
        "results/logs/count/{kernel}.log",
    wildcard_constraints:
        kernel="|".join(KERNELS),
    params:
        kernel=lambda wildcards: "--variant {} --block-size {}".format(
            *KERNELS[wildcards.kernel]
        ).removesuffix(" --block-size None"),
        counted=lambda wildcards: COUNTED[wildcards.kernel],
        predicted=lambda wildcards: [
            n for n in STUDIED[wildcards.kernel] if n not in COUNTED[wildcards.kernel]
        ],
    message:
        "Counting memory accesses of {wildcards.kernel}"
    shell:
        "python -m kernels count {params.kernel} --size {params.counted}"
        " --theory-size {params.predicted} --out {output} 2>&1 | tee {log} >&2"
