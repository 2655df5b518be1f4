"""What the answers depend on: arithmetic, host memory and the CPU code of the comparison."""

import numpy as np
import pytest

from analysis.data.store import Store
from analysis.overview.choices import KINDS, LIBRARY, STRICT, TENSOR, _kind

ROWS = ["kernels", "host_memory", "cpu_baseline"]


def test_each_choice_compares_the_least_times_of_both_sides(computed):
    store = Store(computed)
    choices = store["choices"].set_index(ROWS)
    assert len(choices) == len(KINDS) * 2 * 2
    cells = store["summary"].query("series == 'sizes' and recording == 'card'")
    cells = cells[cells["n"] == choices["n"].iloc[0]]
    on_cpu = cells[cells["device"] == "cpu"]
    baselines = {"best": on_cpu, "one thread": on_cpu[on_cpu["threads"] == 1]}
    for (kernels, memory, baseline), row in choices.iterrows():
        of_memory = cells[cells["host_memory"] == memory]
        least_s = of_memory.loc[of_memory["variant"].map(_kind) == kernels, "total_s"].min()
        assert row["total_s"] == least_s
        assert row["speedup"] == pytest.approx(
            baselines[baseline]["total_s"].min() / least_s, rel=1e-5
        )
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    of_best = choices.xs("best", level="cpu_baseline")
    over_one = choices.xs("one thread", level="cpu_baseline")
    assert (of_best["speedup"] < over_one["speedup"]).all()
    assert (
        of_best.xs("pinned", level=1)["speedup"] > of_best.xs("pageable", level=1)["speedup"]
    ).all()


def test_choices_repeat_the_break_even_sizes_of_the_table_break_even(computed):
    store = Store(computed)
    sizes = store["break_even"].query("kernels == 'library' and cpu_baseline == 'best'")
    choices = store["choices"].query(f"kernels == '{LIBRARY}' and cpu_baseline == 'best'")
    both = choices.merge(sizes, on="host_memory", suffixes=("", "_of_table"))
    assert len(both) == 2
    for name in ("location", "least_n", "largest_n"):
        assert list(both[f"break_even_{name}"]) == list(both[name])
    known = both["n_of_table"].notna()
    assert known.any()
    np.testing.assert_allclose(both["break_even_n"][known], both["n_of_table"][known], rtol=0.01)


def test_kernels_on_tensor_cores_do_not_count_as_strict_fp32():
    names = ["sgemm_top_pieces", "sgemm_tensor_staged", "cublas_sgemm"]
    assert [_kind(name) for name in names] == list(KINDS) == [STRICT, TENSOR, LIBRARY]
