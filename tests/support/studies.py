"""A small study, which tests change."""

from pathlib import Path

import yaml

from kernels.catalog.entries import VARIANTS
from study.config import Study

CPU = {"variants": ["naive"], "sizes": [8], "block_sizes": [4], "threads": [1]}
SMALL = {
    "seed": 1,
    "dtypes": ["float32"],
    "sizes": [8],
    "holdout_sizes": [],
    "variants": ["block"],
    "block_sizes": [4],
    "host_memory": ["pinned"],
    "cpu": CPU,
    "protocol": {"confidence": 0.95, "samples": 6}
    | {"gpu_cell_budget_s": 1, "cpu_cell_budget_s": 1, "single_run_s": 3, "warm_up_s": 0}
    | {"cpu_warm_run_s": 0, "cold_starts": 0, "hang_limit_s": 60},
}


def study(changes, catalog=VARIANTS):
    return Study.model_validate(SMALL | changes, context={"catalog": catalog})


def config_text(changes, protocol, gpus=({"id": "local", "device": "auto"},), **sections):
    own = SMALL | changes | {"protocol": SMALL["protocol"] | protocol}
    whole = {"study": own, "gpus": list(gpus)} | sections
    return yaml.safe_dump(whole, sort_keys=False, default_flow_style=None, width=1000)


def with_short_ceilings(folder: Path) -> None:
    """Let the packages in a folder measure the ceilings of the CPU in milliseconds."""
    for name, old, new in (
        ("ceilings", "ROUNDS = 6", "ROUNDS = 1"),
        ("cpu_ceilings", "64 << 20, 1 << 30", "1 << 16, 1 << 16"),
        ("cpu_ceilings", "64 << 20", "1 << 20"),
    ):
        file = folder / "measurement" / "devices" / f"{name}.py"
        text = file.read_text()
        assert old in text, old
        file.write_text(text.replace(old, new, 1))
