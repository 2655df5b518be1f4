"""The audit of the published numbers: what it finds, and that no figure of it is typed in."""

import csv
import io
import shutil

import numpy as np
import pandas as pd
import pytest
from analysis.audit_findings import audit_sentences
from analysis.figures import write_figures
from analysis.report import render
from analysis.results import Results
from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import write_audit
from analysis.audit.tables import fit_constant
from analysis.data import published_claims
from analysis.stats.rounding import half_unit
from measurement.errors import StudyError
from tests.support.report_data import PUBLISHED, STATEMENTS, TEMPLATE, Page, chain, traced_tables

TOPICS = ("rates", "constant", "limit", "headline", "cpu", "pairs")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The tables of a study without recordings."""
    return chain({}, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def audited(tables):
    return said(tables)


def said(folder):
    """Return what the audit in a folder of tables says, by topic."""
    found = audit_sentences(Results(folder))
    return {
        sentence.topic.removeprefix("audit_"): str(sentence).replace("\u00a0", " ")
        for sentence in found
    }


@pytest.fixture
def changed(tables, tmp_path):
    """Return what the audit says after one column of one row of a published file was changed."""

    def change(path, column, value, **where):
        rows = list(csv.DictReader(path.read_text().splitlines()))
        chosen = [row for row in rows if all(row[k] == v for k, v in where.items())]
        assert len(chosen) == 1, where
        assert chosen[0][column] != value
        chosen[0][column] = value
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        folder = tmp_path / "tables"
        shutil.copytree(tables, folder)
        bent = tmp_path / path.name
        bent.write_text(text.getvalue())
        files = {PUBLISHED: PUBLISHED, STATEMENTS: STATEMENTS} | {path: bent}
        write_audit(files[PUBLISHED], files[STATEMENTS], folder)
        return said(folder)

    return change


def test_the_six_points_as_published(audited):
    assert list(audited) == list(TOPICS)
    assert "Of 25 rates printed beside their times, 25 are 2N³/t" in audited["rates"]
    assert "the constant is 0.0542 s (0.0527 to 0.0557)" in audited["constant"]
    assert "that table does not hold it" in audited["constant"]
    assert "(0.055 s − 0.0542 s) over 0.0005 s is 1.61 ×" in audited["constant"]
    assert "2.37 × (2.11 to 2.69)" in audited["limit"]
    assert "is above that limit" in audited["limit"]
    assert "344 GFLOP/s at N = 2048, means t = 0.0499 s" in audited["headline"]
    assert "is 0.058 s, 296.2 GFLOP/s" in audited["headline"]
    assert "3 copies of 16.8 MB move at 6.25 GB/s" in audited["headline"]
    assert "Table 2 has 103 s at N = 2048, by 2N³/t 0.1668 GFLOP/s" in audited["cpu"]
    assert (
        "is 2062, beside the text's “more than 2000”. So the column is the naive" in audited["cpu"]
    )
    assert (
        "At N = 512, the largest of these orders, B = 8 takes 0.055 s, B = 16 takes 0.059 s"
        in audited["pairs"]
    )


ROW = {"table": "5", "implementation": "gpu_block", "n": "512"}


@pytest.mark.parametrize(
    ("topic", "column", "value", "where", "then"),
    [
        (
            *("rates", "gflops_printed", "19.9"),
            {"table": "4", "implementation": "gpu_buffered_row", "n": "1024"},
            "24 are 2N³/t of the printed time within the rounding of both, and these are not: "
            "Table 4, N = 1024, buffered_row: 2N³/t with t = 0.12 s gives 17.90 GFLOP/s "
            "(17.18 to 18.67), printed is 19.9 GFLOP/s",
        ),
        (
            *("rates", "time_s", "0.15"),
            {"table": "4", "implementation": "gpu_buffered_row", "n": "1024"},
            "t = 0.15 s gives 14.32 GFLOP/s",
        ),
        (
            *("constant", "time_s", "0.071"),
            {"table": "5", "implementation": "gpu_block", "n": "256", "block_size": "32"},
            "6 of 9 times are within a tenth of it",
        ),
        (
            *("constant", "time_s", "0.00025"),
            {"table": "6", "implementation": "gpu_block_unroll4", "n": "256", "block_size": "16"},
            "0.055 s over 0.00025 s is 220 ×",
        ),
        (
            *("limit", "time_s", "0.15"),
            {"table": "4", "implementation": "gpu_buffered_row", "n": "1024"},
            "the gain stays below that limit",
        ),
        (
            *("limit", "time_s", "0.13"),
            {"table": "4", "implementation": "gpu_buffered_row", "n": "1024"},
            "leave open whether the gain is above it",
        ),
        (
            *("headline", "time_s", "0.051"),
            {"table": "6", "implementation": "gpu_block_unroll4", "n": "2048", "block_size": "32"},
            "copies alone do not explain it",
        ),
        (
            *("headline", "time_s", "0.0499"),
            {"table": "6", "implementation": "gpu_block_unroll4", "n": "2048", "block_size": "32"},
            "the table holds what the text says",
        ),
        (
            *("cpu", "time_s", "3.1"),
            {"table": "2", "implementation": "cpu_naive", "n": "2048"},
            "So the caption may hold",
        ),
        (
            *("cpu", "time_s", "20"),
            {"table": "2", "implementation": "cpu_naive", "n": "2048"},
            "neither of the two",
        ),
        (
            *("pairs", "time_s", "0.0595"),
            {**ROW, "block_size": "8"},
            "the smaller block is the faster one in 2, ",
        ),
        (
            *("pairs", "time_s", "0.2"),
            {"table": "4", "implementation": "gpu_naive", "n": "1024"},
            "16 have the same digits.",
        ),
    ],
)
def test_a_changed_cell_changes_the_text(changed, audited, topic, column, value, where, then):
    assert then not in audited[topic]
    found = changed(PUBLISHED, column, value, **where)
    assert then in found[topic], found[topic]


@pytest.mark.parametrize(
    ("statement", "value", "topic", "then"),
    [
        ("best_flop_per_s", "300", "headline", "300 GFLOP/s at N = 2048, means t = 0.0573 s"),
        ("link_bytes_per_s", "4", "headline", "more than the card's link can carry"),
        ("gain_over_cpu", "3000", "cpu", "more than 3000"),
        ("tuned_cpu_gain", "10", "cpu", "neither of the two"),
        ("tuned_cpu_most_flop_per_s", "7", "cpu", "5 GFLOP/s to 7 GFLOP/s"),
        ("tuned_cpu_least_flop_per_s", "0.1", "cpu", "So the caption may hold"),
    ],
)
def test_a_changed_statement_changes_the_text(changed, audited, statement, value, topic, then):
    assert then not in audited[topic]
    assert then in changed(STATEMENTS, "value", value, statement=statement)[topic]


def test_tables_without_a_part_say_so(tables, tmp_path):
    folder = tmp_path / "tables"
    shutil.copytree(tables, folder)
    cpu_alone = tmp_path / "times.csv"
    lines = PUBLISHED.read_text().splitlines()
    cpu_alone.write_text("\n".join([lines[0], *(x for x in lines if "cpu_naive,256" in x)]) + "\n")
    write_audit(cpu_alone, STATEMENTS, folder)
    found = said(folder)
    assert "Of 2 rates" in found["rates"]
    for topic in ("constant", "limit", "headline", "pairs"):
        assert found[topic].startswith("The published tables hold no "), topic
    assert "neither of the two" in found["cpu"]


# ---- the start-up constant


def kernels(rng, constant=0.05, noise=0.03, count=7):
    """Return number, n and time of kernels with a constant and a cost that grows with n³."""
    orders = np.array([256.0, 512.0, 1024.0, 2048.0])
    number = np.repeat(np.arange(count), len(orders))
    n = np.tile(orders, count)
    cost = rng.uniform(2e-11, 3e-10, count)[number]
    return number, n, (constant + cost * n**3) * np.exp(noise * rng.standard_normal(len(n)))


def test_a_known_constant_is_recovered_with_its_coverage():
    inside = 0
    for seed in range(100):
        fitted = fit_constant(*kernels(np.random.default_rng(seed)))
        assert fitted.value == pytest.approx(0.05, rel=0.1)
        inside += fitted.low <= 0.05 <= fitted.high
    assert 88 <= inside <= 100


def test_a_kernel_that_grows_otherwise_hardly_pulls_the_constant():
    number, n, time_s = kernels(np.random.default_rng(1), noise=0.005)
    steep = number == 0
    time_s[steep] = 0.05 + 1e-13 * n[steep] ** 4
    assert fit_constant(number, n, time_s).value == pytest.approx(0.05, rel=0.02)


def test_the_constant_has_the_unit_of_the_times():
    number, n, time_s = kernels(np.random.default_rng(2))
    seconds, milliseconds = (fit_constant(number, n, f * time_s) for f in (1.0, 1e3))
    assert milliseconds.value == pytest.approx(1e3 * seconds.value, rel=1e-3)
    assert milliseconds.high / milliseconds.low == pytest.approx(
        seconds.high / seconds.low, rel=0.01
    )


def test_one_kernel_gives_a_constant_without_interval():
    fitted = fit_constant(*kernels(np.random.default_rng(3), count=1))
    assert fitted.value == pytest.approx(0.05, rel=0.1)
    assert np.isnan([fitted.low, fitted.high]).all()


# ---- rounding


@pytest.mark.parametrize(
    ("value", "half"), [(0.055, 5e-4), (103.0, 0.5), (340.0, 0.5), (40.8, 0.05), (0.0005, 5e-5)]
)
def test_half_a_unit_of_the_last_digit(value, half):
    assert half_unit(value) == pytest.approx(half)


@given(st.integers(1, 10**6), st.integers(0, 6))
def test_a_number_is_within_its_rounding_of_what_was_rounded(digits, decimals):
    printed = round(digits / 10**decimals, decimals)
    assert 0 < half_unit(printed) <= printed
    assert half_unit(printed) >= 0.5 * 10.0**-decimals * (1 - 1e-9)


# ---- the page and the command


def test_the_report_has_a_paragraph_for_each_point_and_traces_it(tables, tmp_path):
    write_figures(tables, tmp_path / "figures")
    render(tables, tmp_path / "figures", {}, TEMPLATE, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    part = text[text.index('<section id="audit"') : text.index('<section id="figures"')]
    for topic in TOPICS:
        assert f'<dt id="audit-{topic}">' in part
    names = ("cells", "constants", "pairs", "headline", "cpu")
    assert {f"audit_{name}" for name in names} <= traced_tables(page, Results(tables))
    assert part.count("<table") == 3


@pytest.mark.parametrize(
    ("row", "then"),
    [
        ("best_flop_per_s,2048,fast,1,x", "row 2: n, value and factor must be numbers above 0"),
        ("best_flop_per_s,2048,-1,1,x", "row 2: n, value and factor must be numbers above 0"),
        ("best_flop_per_s,2048,1", "row 2: must have the columns"),
        ("best_flop_per_s,2048,1,1,x", "has no row 'gain_over_cpu'"),
    ],
)
def test_wrong_statements_are_one_line(tmp_path, row, then):
    path = tmp_path / "statements.csv"
    path.write_text(f"statement,n,value,factor,said\n{row}\n")
    with pytest.raises(StudyError, match=r"statements\.csv") as error:
        published_claims.read(path)
    assert then in str(error.value)
    with pytest.raises(StudyError, match=r"none\.csv"):
        published_claims.read(tmp_path / "none.csv")


def test_the_tables_are_the_same_bytes_each_time(tables, tmp_path):
    write_audit(PUBLISHED, STATEMENTS, tmp_path)
    written = list(tmp_path.iterdir())
    assert len(written) == 5
    for path in written:
        assert path.read_bytes() == (tables / path.name).read_bytes()
        assert len(pd.read_csv(path)) > 0
