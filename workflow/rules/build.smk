# Cubins, one job each: for the GPUs of this host, and for those of the recordings too, so that the
# sources are known to build for them and their use of resources is known.


rule build_cubin:
    input:
        kernel=lambda wildcards: parse_build(wildcards.stem).source,
        code=sources("kernels"),
    output:
        cubin="results/cubins/{architecture}/{stem}.cubin",
        resources="results/cubins/{architecture}/{stem}.json",
    log:
        "results/logs/build/{architecture}/{stem}.log",
    params:
        nvcc=shlex.quote(str(NVCC)),
    message:
        "Building {wildcards.stem} for {wildcards.architecture}"
    shell:
        "python -m kernels build --nvcc {params.nvcc} --architecture {wildcards.architecture}"
        " --build {wildcards.stem} --out {output.cubin} 2>&1 | tee {log} >&2"
