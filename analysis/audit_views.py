"""The report's tables of the audit of the published numbers."""

from analysis.results import GFLOPS, SECONDS, TIMES, Results, Unit, as_published, slug
from analysis.views import Table, plain_table

_PRINTED_S, _PRINTED_GFLOPS = as_published(SECONDS), as_published(GFLOPS)
_Columns = dict[str, tuple[str, str | Unit]]
_WHERE: _Columns = {
    "table": ("table", "count"),
    "implementation": ("implementation", "code"),
    "n": ("N", "count"),
    "block_size": ("B", "count"),
}


def audit_tables(results: Results) -> list[Table]:
    """Return the tables of printed rates, of gains, and of pairs of block sizes."""
    cells, pairs = results.frame("audit_cells"), results.frame("audit_pairs")
    rated = cells.index[cells["printed_flop_per_s"].notna()]
    gained = cells.index[cells["warm_gain"].notna()]
    turned = pairs.index[pairs["differs"].astype(str) == "True"]
    return [
        _table(
            results,
            "audit_cells",
            list(rated),
            _WHERE
            | {
                "time_s": ("time", _PRINTED_S),
                "printed_flop_per_s": ("rate as printed", _PRINTED_GFLOPS),
                "flop_per_s": ("rate by the time", GFLOPS),
                "rate_agrees": ("agree", "flag"),
            },
            "Printed rates",
            "Every printed rate beside that by its printed time; in small print what the "
            "rounding of the time leaves open.",
        ),
        _table(
            results,
            "audit_cells",
            list(gained),
            _WHERE
            | {
                "naive_time_s": ("naive time", _PRINTED_S),
                "time_s": ("time", _PRINTED_S),
                "gain": ("gain as printed", TIMES),
                "warm_gain": ("gain without the constant", TIMES),
            },
            "Gains without the start-up constant",
            "Gains over the naive kernel as printed, and with the constant taken from every "
            "time that holds it; in small print what rounding and the constant's interval "
            "leave open. ∞: a time that is no longer than the constant.",
        ),
        _table(
            results,
            "audit_pairs",
            list(turned),
            _WHERE
            | {
                "other_block_size": ("other B", "count"),
                "other_table": ("other table", "count"),
                "time_s": ("time", _PRINTED_S),
                "other_time_s": ("other time", _PRINTED_S),
                "above_constant_s": ("time above the constant", Unit(1.0, "s", 2)),
                "is_empty": ("no longer than the constant", "flag"),
            },
            "Smaller blocks that are faster, and cells that tables print differently",
            "Pairs of published cells that do not fit together.",
        ),
    ]


def _table(
    results: Results, name: str, rows: list[int], columns: _Columns, title: str, caption: str
) -> Table:
    anchor = f"table-audit-{slug(title)[:20]}"
    return plain_table(results, name, rows, columns, anchor, title, (caption,))
