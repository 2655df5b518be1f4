"""Names of the baselines of the ladder in the report (config.yaml, report: baseline)."""

FASTEST_NAIVE, SOURCE_NAIVE, CUBLAS, FASTEST_CPU = BASELINES = (
    *("fastest-naive", "source-naive"),
    *("cublas", "fastest-cpu"),
)
