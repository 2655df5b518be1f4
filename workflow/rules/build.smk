# Cubins, one job an architecture: for the GPUs of this host and, in the full study, for those of the
# recordings too, so that the sources are known to build for them.

STEMS = [build.stem for build in builds(CONFIG.study)]
CUBINS = cubins(sorted({name for names in ARCHITECTURES.values() for name in names}))


rule build:
    input:
        kernels=[path for path in MEASURED_SOURCES if path.endswith(".cu")],
        code=[*sources("kernels"), *sources("study")],
    output:
        cubins=expand("results/cubins/{{architecture}}/{stem}.cubin", stem=STEMS),
        resources=expand("results/cubins/{{architecture}}/{stem}.json", stem=STEMS),
    log:
        "results/logs/build/{architecture}.log",
    threads: 1024  # all cores, see rule measure
    params:
        nvcc=shlex.quote(str(NVCC)),
        study=STUDY,  # not in the command: it stands in the configuration in force
    message:
        "Building kernels for {wildcards.architecture}"
    shell:
        "python -m study build --config results/config.yaml --nvcc {params.nvcc}"
        " --architecture {wildcards.architecture} --jobs {threads} --out results/cubins"
        " 2>&1 | tee {log} >&2"
