"""The report's tables on recordings, on cells that were not timed, and on builds."""

from analysis.data.recordings import TREE
from analysis.results import Results, anchors
from analysis.views import Table, plain_table


def recordings_table(results: Results) -> Table:
    """Return the recordings behind the report."""
    columns = {
        "recording": ("recording", "code"),
        "gpu_name": ("GPU", "text"),
        "cpu_model": ("CPU", "text"),
        "live": ("measured here", "flag"),
        "started_utc": ("started", "text"),
        "finished_utc": ("finished", "text"),
        "commit": ("commit", "code"),
        "samples": ("samples", "count"),
        "cells_passed": ("cells passed", "count"),
        "cells_failed": ("cells failed", "count"),
        "cells_not_launchable": ("cells not launchable", "count"),
    }

    def decorate(row: int, column: str) -> str:
        flag = {"recording": "stale", "gpu_name": "simulated", "commit": "dirty"}.get(column)
        return flag if flag and results.text("recordings", row, flag) == "True" else ""

    rows = list(results.frame("recordings").index)
    caption = ("The recordings behind this report, and what their correctness gate found.",)
    return plain_table(
        results, "recordings", rows, columns, "table-recordings", "Recordings", caption, decorate
    )


def checks_table(results: Results) -> Table:
    """Return every cell that was not timed, and why."""
    frame = results.frame("checks")
    columns = {
        "recording": ("recording", "code"),
        "device": ("device", "code"),
        "variant": ("variant", "code"),
        "dtype": ("elements", "text"),
        "n": ("shape", "shape"),
        "block_size": ("B", "count"),
        "host_memory": ("memory", "text"),
        "status": ("status", "text"),
        "reason": ("reason", "text"),
        "worst_error": ("worst error", "number"),
        "worst_bound": ("its bound", "number"),
    }
    rows = list(frame.index[frame["status"] != "passed"])
    caption = ("Every cell that failed the gate or cannot be launched on its card, and why.",)
    return plain_table(results, "checks", rows, columns, "table-checks", "Cells not timed", caption)


def builds_tables(results: Results) -> list[tuple[str, Table]]:
    """Return the builds of every recording and of this tree, each with where it is from."""
    frame = results.frame("builds")
    columns = {
        "architecture": ("architecture", "code"),
        "variant": ("kernel", "code"),
        "dtype": ("elements", "text"),
        "block_size": ("B", "count"),
        "build": ("build", "text"),
        "nvcc": ("nvcc", "text"),
        "registers_per_thread": ("registers a thread", "count"),
        "static_shared_bytes": ("shared memory, byte", "count"),
        "spill_store_bytes": ("spill stores, byte", "count"),
        "spill_load_bytes": ("spill loads, byte", "count"),
        "stack_bytes": ("stack, byte", "count"),
    }
    found = []
    recordings = [str(name) for name in dict.fromkeys(frame["recording"])]
    for name, anchor in anchors(recordings).items():
        rows = list(frame.index[frame["recording"] == name])
        origin = "built here, from this tree" if name == TREE else f"measured in {name}"
        caption = (
            f"What the compiler made of each kernel {origin}; probes: those that measure ceilings.",
        )
        table = plain_table(
            results, "builds", rows, columns, f"table-builds-{anchor}", f"Builds, {name}", caption
        )
        found.append((origin, table))
    return found
