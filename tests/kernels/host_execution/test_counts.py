"""The table of counts: lines, totals, theory, ncu's names; its command line."""

import csv
import io
import re
from collections import defaultdict
from functools import partial

import pytest
import yaml

from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import IN_TURN
from kernels.host_execution import counts
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.counts import BLOCK_SIZES, COLUMNS, COUNTED_SIZE, count_all, table
from kernels.products.shape import Shape
from study.config import load
from study.counting import plan
from study.plan import products
from tests.support import ROOT
from tests.support.products import product_of
from tests.support.studies import study

# ncu's counters, with ld or st for {}.
GLOBAL = {
    "accesses": "",
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum",
    "lines": "",
}
SHARED = {
    "accesses": "",
    "requests": "smsp__sass_inst_executed_op_shared_{}.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum",
}
METRICS = {
    f"{memory}_{name}_{quantity}": metric.format(way)
    for memory, metrics in (("global", GLOBAL), ("shared", SHARED))
    for name, way in (("load", "ld"), ("store", "st"))
    for quantity, metric in metrics.items()
}


def rows_of(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == COLUMNS
    return rows


@pytest.fixture(scope="module")
def rows():
    """Strided blocks of 16: counted at 32, with bounds checks at 33; by theory at 4096."""
    products = [product_of("block_strided", n, 16) for n in (32, 33, 4096)]
    return rows_of(table(products[:2], products[2:]))


def test_counted_totals_equal_theory_and_the_sum_over_source_lines(rows):
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


@pytest.mark.slow
def test_rows_of_the_count_table_name_element_type_and_shape():
    """A padded product has its own name, and the lines of its kernel."""
    products = [product_of("bmm_tile", shape, 8, "float64") for shape in ("2x9x5x17", "1x512x3")]
    rows = rows_of(table([products[0], product_of("block_padded", 17, 8)], products[1:]))
    keys = ("variant", "dtype", "batch", "m", "n", "k", "block_size", "build")
    assert {tuple(row[key] for key in keys) for row in rows} == {
        ("bmm_tile", "float64", "2", "9", "17", "5", "8", "guarded"),
        ("bmm_tile", "float64", "1", "1", "3", "512", "8", "guarded"),
        ("block_padded", "float32", "1", "17", "17", "17", "8", "exact"),
    }
    stores = [row for row in rows if row["quantity"] == "global_store_accesses"]
    assert {
        (row["line"] != "", row["count"]) for row in stores if row["variant"] == "bmm_tile"
    } == {*((True, "306"), (False, "306"), (False, ""))}
    threads = 2 * 2 * 3 * 64  # blocks along z, y and x, of 8 x 8
    first = next(row for row in stores if not row["line"])
    assert float(first["per_thread"]) == 306 / threads
    totals = [r for r in rows if r["variant"] == "block_padded" and not r["line"]]
    loads = [row["count"] for row in totals if row["quantity"] == "global_load_accesses"]
    assert loads == [str(2 * 24**3 // 8)]


def test_larger_sizes_have_only_theoretical_counts(rows):
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


@pytest.fixture
def run(command):
    return partial(command, "count")


def test_the_command_count_prints_the_table_or_writes_it(run, tmp_path):
    options = ("--variant", "mm_naive", "--block-size", 8, "--dtype", "int32")
    options += ("--size", "9x5x17", 8, "--theory-size", "640x320x1000")
    printed = run(*options)
    assert (printed.returncode, printed.stderr) == (0, "")
    rows = rows_of(printed.stdout)
    assert {row["dtype"] for row in rows} == {"int32"}
    assert {(row["m"], row["k"], row["n"]) for row in rows} == {
        *(("9", "5", "17"), ("8", "8", "8"), ("640", "320", "1000"))
    }
    written = run(*options, "--out", tmp_path / "folder" / "counts.csv")
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    assert (tmp_path / "folder" / "counts.csv").read_text() == printed.stdout


STUDY = {
    "variants": ["block", "buffered_row", "register_tile", "cublas_sgemm"],
    "dtypes": ["float32"],
    "sizes": [32, 512, 2048],
    "holdout_sizes": [96],
    "block_sizes": [4, 32],
    "series": [
        {
            "variants": ["bmm_tile", "block"],
            "dtypes": ["float64", "float32"],
            "block_sizes": [8, 32],
            "shapes": ["3x17x33x65", "3x640x320x1000", 100],
        }
    ],
}


def planned(asked, size=512, block_sizes=(8, 32)):
    """Return the shapes that are counted and those that are predicted, as texts, by table."""
    return {
        one.stem: tuple([str(p.shape) for p in part] for part in (one.counted, one.predicted))
        for one in plan(asked, size, block_sizes)
    }


def test_small_shapes_are_counted_and_all_others_predicted_by_theory():
    found = planned(study(STUDY))
    assert found["block-b4-float32"] == (["64", "70", "32"], ["96", "512", "2048"])
    assert found["block-b32-float32"] == (["64", "70", "32", "512"], ["96", "100", "2048"])
    assert found["buffered_row-float32"] == (["64", "70", "32", "512"], ["96"])
    assert found["register_tile-float32"] == (["128", "70", "32", "512"], ["96", "2048"])
    of_batches = (["64", "70", "3x17x33x65"], ["100", "3x640x320x1000"])
    assert found["bmm_tile-b8-float64"] == found["bmm_tile-b32-float32"] == of_batches
    assert set(found) == {
        *("block-b4-float32", "block-b8-float32", "block-b32-float32", "buffered_row-float32"),
        *(f"bmm_tile-b{block}-{dtype}" for block in (8, 32) for dtype in ("float32", "float64")),
        "register_tile-float32",
    }, "a library's product has no accesses to count"
    few = planned(study(STUDY), size=None)  # large products are predicted
    assert few["block-b32-float32"] == (["64", "70", "32"], ["96", "100", "512", "2048"])
    assert set(few) == set(found)


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A tree of two kernels and their code, and a function that counts them with cheap tables."""
    for name in ("block.cu", "naive.cu", "theory/cost.py", "host/run.h", "products/matrices.py"):
        path = tmp_path / "kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"kernels/{name}")
    monkeypatch.setattr(counts, "ROOT", tmp_path)
    made = []

    def table(products, theory_products=()):
        for one in products:
            if one.variant == "naive" and "fault" in (tmp_path / "kernels/naive.cu").read_text():
                raise KernelFault("kernels/naive.cu:3: a fault")
            made.append(f"{one.variant} {one.shape}")
        return "header\n" + "".join(f"{one}\n" for one in (*products, *theory_products))

    monkeypatch.setattr(counts, "table", table)

    def count(**changes):
        """Count a study; return the variants and shapes of the products that were counted."""
        made.clear()
        asked = study({"variants": ["block", "naive"], "block_sizes": [4, 32]} | changes)
        tables, announced = plan(asked, 512), []
        folders = (tmp_path / "out", 2, tmp_path / "store")
        count_all(tables, *folders, lambda n, _: announced.append(n))
        assert announced == list(range(1, len(tables) + 1))
        for one in tables:
            text = (tmp_path / "out" / f"{one.stem}.csv").read_text()
            assert text.split("\n") == ["header", *map(str, one.counted + one.predicted), ""]
        return sorted(made)

    count.folder = tmp_path
    return count


def test_only_products_with_changed_inputs_are_counted_again(counted, monkeypatch):
    everything = counted()
    assert {one.split()[0] for one in everything} == {"block", "naive"}
    assert counted() == []
    (counted.folder / "kernels" / "naive.cu").write_text("edited")
    assert counted() == [one for one in everything if one.startswith("naive")]
    for name in ("kernels/theory/cost.py", "kernels/host/run.h", "kernels/products/matrices.py"):
        (counted.folder / name).write_text("edited")
        assert counted() == everything, name
    assert counted(sizes=[9, 1777]) == ["block 9", "block 9", "naive 9", "naive 9"]
    assert counted() == [], "earlier tables are still in the store"
    monkeypatch.setattr(counts, "compiler_version", lambda: "g++ of tomorrow")
    assert counted() == everything


def test_a_kernel_fault_ends_the_counting_and_finished_tables_are_kept(counted):
    source = counted.folder / "kernels" / "naive.cu"
    source.write_text("a fault")
    with pytest.raises(KernelFault, match=r"^kernels/naive\.cu:3: a fault$"):
        counted()
    source.write_text("kernels/naive.cu")
    left = counted()
    assert any(one.startswith("naive") for one in left)
    (counted.folder / "kernels" / "theory" / "cost.py").write_text("edited")
    assert len(left) < len(counted())


def test_the_command_count_counts_all_kernels_of_a_study(command, tmp_path):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["study"] |= {"variants": ["naive"], "sizes": [32], "block_sizes": [32]}
    config["study"] |= {"holdout_sizes": [], "series": [], "scope": "quick"}
    config["study"]["quick"] = {"variants": ["block"]}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    done = command("count", "--config", tmp_path / "config.yaml", "--out", tmp_path / "counts")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.search(r"^accesses: 1/1 kernels counted in 0:\d\d$", done.stderr, re.MULTILINE)
    rows = rows_of((tmp_path / "counts" / "naive-b32-float32.csv").read_text())
    assert {row["n"] for row in rows} == {"32", "64", "70"}, "whatever is measured here"


def test_every_kernel_of_the_study_is_also_counted_at_the_size_of_hardware_counters():
    own = load(ROOT / "config.yaml").study
    tables = plan(own, COUNTED_SIZE, BLOCK_SIZES)
    in_turn = {n for n, entry in VARIANTS.items() if entry.kernel_name and entry.flow == IN_TURN}
    assert {one.counted[0].variant for one in tables} == in_turn
    at_order = {
        (one.variant, one.dtype, one.block_size)
        for counting in tables
        for one in counting.counted
        if one.shape == Shape.square(COUNTED_SIZE)
    }
    wanted = {
        (one.variant, one.dtype, one.block_size)
        for one in products(own)
        if one.shape == Shape.square(COUNTED_SIZE)
        and one.dtype == "float32"
        and one.block_size in (None, *BLOCK_SIZES)
        and one.variant in in_turn
    }
    assert at_order == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--variant", "blok", "--size", 16), "variant 'blok': not in the catalog"),
        (("--variant", "block", "--block-size", 32), "--size: is missing; give sizes"),
        (("--variant", "mm_tile", "--block-size", 8, "--size", "8x8"), "shape '8x8': not valid; "),
        (("--variant", "buffered_row", "--theory-size", 2048), "2048 threads per block, 1024 al"),
    ],
)
def test_a_wrong_argument_is_reported_in_one_line(run, options, words):
    done = run(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
