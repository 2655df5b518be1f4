"""The figure of sessions."""

from analysis.trust.figures import FIGURES
from tests.support.figures import device, drawn
from tests.support.report_data import tables


def test_the_figure_of_sessions_shows_the_interval_for_a_new_session(tmp_path):
    kernel = {"gpu": "a", "quantity": "kernel", "host_memory": "pinned", "matrices_in": "L2"}
    factors = {"mean_interval_factor": 1.1, "new_session_interval_factor": 1.2}
    total = {"gpu": "a", "quantity": "total", "host_memory": "pageable", "length": "over 1 ms"}
    rows = [
        kernel | factors,
        kernel | factors | {"gpu": "b", "mean_interval_factor": 1.05},
        kernel | factors | {"quantity": "h2d"},
        *(total | {"host_work": work, **factors} for work in (False, True)),
    ]
    store = tables(tmp_path, recordings=[device("a"), device("b")], sessions=rows)
    assert drawn(FIGURES["sessions"], store).tooltips == [
        "a, kernel-only, data in L2: 1.1× (1.1 to 1.2)",
        "a, pageable, over 1 ms: 1.1× (1.1 to 1.2)",
        "b, kernel-only, data in L2: 1.05× (1.05 to 1.2)",
    ]
