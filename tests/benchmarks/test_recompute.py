"""The independent recomputation: its size and imports, and that it finds a changed cell."""

import sys
from functools import cache

import numpy as np
import pytest

from benchmarks import recompute
from tests.support import ROOT
from tests.support.imports import imported

pytestmark = pytest.mark.exhaustive

SCRIPT = ROOT / "benchmarks" / "recompute.py"


def test_the_recomputing_script_imports_nothing_of_the_project_and_is_short():
    packages = {name.split(".")[0] for name in imported(SCRIPT)}
    assert packages - sys.stdlib_module_names == {"numpy", "scipy"}
    assert len(SCRIPT.read_text().splitlines()) <= 400


@pytest.fixture(scope="module")
def checked(computed, gpu_recording):
    """A function that runs the check of a table, also after a change of one of its columns."""
    tables = {path.stem: recompute.rows_of(path) for path in computed.glob("*.csv")}
    published = recompute.rows_of(ROOT / "data" / "published" / "times.csv")
    source = recompute.Source([gpu_recording.path])

    @cache
    def check(name, column=None, factor=1):
        made, found = dict(tables), recompute.Checks()
        if column:
            texts = ((row, row[column]) for row in made[name])
            made[name] = [r | {column: str(float(old) * factor) if old else ""} for r, old in texts]
        if name == "summary":
            recompute.check_medians(source, "card", made[name], found)
        elif name == "break_even":
            recompute.check_break_even(source, "card", made[name], found)
        else:
            recompute.check_audit(published, made, found)
        return found.found

    return check


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (None, set()),
        (("summary", "total_s", 1.0001), {"medians"}),
        (("summary", "kernel_high_s", 1.0001), {"intervals, one session"}),
        (("break_even", "n", 1.01), {"break-even sizes"}),
        (("audit_cells", "flop_per_s", 1.0001), {"audit, throughputs"}),
        (("audit_constants", "constant_s", 1.01), {"audit, start-up times"}),
    ],
)
def test_recomputed_values_agree_with_tables_and_reveal_a_changed_column(checked, change, found):
    checks = {}
    for call in [["summary"], ["break_even"], ["audit_cells"], *([change] if change else [])]:
        checks |= checked(*call)
    assert {name for name, rows in checks.items() if any(bad for _, bad, _ in rows)} == found
    assert len(checks["medians"]) > 500
    assert min(map(len, checks.values())) >= 3


def test_a_session_effect_shared_by_all_cells_is_found_by_reml():
    rng = np.random.default_rng(1)
    shared, own = rng.normal(0, 0.05, 8), rng.normal(0, 0.01, (200, 8))
    found = recompute.reml(1.0 + shared + own, np.full((200, 8), 1e-6))
    assert found[0] == pytest.approx(shared.var(ddof=1), rel=0.1)
    assert found[1] == pytest.approx(1e-4, rel=0.15)
    assert np.isfinite(found).all()
