"""The table of counts: lines, totals, theory, ncu's names; its command line."""

import csv
import io
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from kernels.counts import COLUMNS, table

ROOT = Path(__file__).resolve().parent.parent
METRICS = {
    "global_load_accesses": "",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_accesses": "",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_accesses": "",
    "shared_load_requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_accesses": "",
    "shared_store_requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def rows_of(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == COLUMNS
    return rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Strided blocks of 16: counted at 32, with bounds checks at 33; by theory at 4096."""
    return rows_of(table("block_strided", 16, [32, 33], [4096], tmp_path_factory.mktemp("builds")))


def test_totals_of_a_run_are_theory_and_the_sum_of_its_lines(rows):
    lines = defaultdict(int)
    for row in rows:
        if row["line"]:
            assert row["theory"] == ""
            lines[row["n"], row["quantity"]] += int(row["count"])
    totals = [row for row in rows if not row["line"] and row["n"] != "4096"]
    assert len(totals) == 2 * len(METRICS)
    for row in totals:
        assert row["count"] == row["theory"]
        assert lines[row["n"], row["quantity"]] == int(row["count"])
    assert {(row["n"], row["build"]) for row in totals} == {("32", "exact"), ("33", "guarded")}


def test_larger_orders_have_theory_alone(rows):
    predicted = {row["quantity"]: row for row in rows if row["n"] == "4096"}
    assert {quantity: row["ncu_metric"] for quantity, row in predicted.items()} == METRICS
    assert {(row["line"], row["count"]) for row in predicted.values()} == {("", "")}
    loads = 2 * 4096**3 // 16
    assert int(predicted["global_load_accesses"]["theory"]) == loads
    # 16 rows of 2 columns: 16 sectors, and words 16 apart: 2 banks, 8 wavefronts.
    sectors, stores = predicted["global_load_sectors"], predicted["shared_store_wavefronts"]
    assert (int(sectors["theory"]), float(sectors["per_request"])) == (loads // 32 * 16, 16)
    assert (int(stores["theory"]), float(stores["per_request"])) == (loads // 32 * 8, 8)
    assert int(predicted["shared_store_bank_conflicts"]["theory"]) == loads // 32 * 7
    assert int(predicted["shared_load_bank_conflicts"]["theory"]) == 0
    assert float(predicted["shared_load_accesses"]["per_thread"]) == 2 * 4096


def test_lines_are_those_of_the_source(rows):
    source = (ROOT / "kernels" / "block_strided.cu").read_text().splitlines()
    texts = {
        (row["n"], row["quantity"], source[int(row["line"]) - 1].strip().split(" = ")[0])
        for row in rows
        if row["line"] and row["quantity"].endswith("accesses")
    }
    assert ("32", "shared_store_accesses", "a_tile[x][y]") in texts
    assert ("33", "shared_store_accesses", "a_tile[x][y]") in texts
    assert ("32", "shared_load_accesses", "sum += a_tile[y][k] * b_tile[k][x];") in texts


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kernels", "count", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_command_prints_or_writes_the_table(tmp_path):
    options = ("--variant", "buffered_row", "--size", 16, "--theory-size", 32, 1024)
    printed = run(*options)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert {row["n"] for row in rows_of(printed.stdout)} == {"16", "32", "1024"}
    written = run(*options, "--out", tmp_path / "folder" / "counts.csv")
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    assert (tmp_path / "folder" / "counts.csv").read_text() == printed.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--variant", "blok", "--size", 16), "variant 'blok' is not in the catalog"),
        (("--variant", "block", "--size", 16), "build 'block-exact' is none of the catalog"),
        (("--variant", "buffered_row", "--theory-size", 2048), "2048 threads a block, 1024 allow"),
    ],
)
def test_wrong_input_is_one_line(options, words):
    done = run(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
