# Cubins, one job per architecture: of this host's GPUs and, in the full study, of the recordings'.

CUBINS = cubins(sorted({name for names in ARCHITECTURES.values() for name in names}))


rule build:
    input:
        kernels=KERNEL_SOURCES,
        code=sources("kernels", "study"),
    output:
        cubins=expand("results/cubins/{{architecture}}/{stem}.cubin", stem=STEMS),
        resources=expand("results/cubins/{{architecture}}/{stem}.json", stem=STEMS),
    log:
        "results/logs/build/{architecture}.log",
    threads: 1024  # all cores, see rule measure
    params:
        nvcc=shlex.quote(str(NVCC)),
        study=STUDY,  # a change rebuilds
    message:
        "Building kernels for {wildcards.architecture}"
    shell:
        "python -m workflow build --config results/config.yaml --nvcc {params.nvcc}"
        " --architecture {wildcards.architecture} --jobs {threads} --out results/cubins"
        " 2>&1 | tee {log} >&2"
