"""Figures: which there are, what they show, and that they can be inlined, read and reproduced."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from report_data import cpu_cell, gpu_cell, recording, tables

from analysis import model_plots, plots, style, svg
from analysis.data.recordings import ROOT
from analysis.figures import write_figures
from analysis.model_figures import gains_of

SVG = "{http://www.w3.org/2000/svg}"
GPU_KINDS = ["headline", "figure1", "rate-size", "rate-block", "split"]
CPU_KINDS = ["cpu", "cpu-blocks"]


def rho_row(label, low, high):
    """Return a row of models.csv: M0's ratio."""
    rho = {"parameter": "rho", "value": 10.0, "value_low": low, "value_high": high}
    return {"source": label, "kernels": "modelled", "model": "M0"} | rho


def predicted_rows(label):
    """Return rows of model_predictions.csv: M0 and M8, held-out orders, and a kernel unseen."""
    cells = [("naive", 32), ("block", 8), ("block", 32), ("buffered_row", None)]
    found = []
    for kernels, models in (("modelled", ("M0", "M8")), ("all", ("M4", "M8"))):
        for model in models:
            for n in (512, 2048):
                role = "held out" if n == 512 else "fitted"
                found += [(kernels, model, role, name, block, n) for name, block in cells]
    found.append(("all", "M8", "unseen", "tile_uncoalesced", 32, 512))
    names = ["kernels", "model", "role", "variant", "block_size", "n"]
    times = {"time_s": 2.0, "time_low_s": 1.9, "time_high_s": 2.1, "predicted_s": 3.0}
    return [
        dict(zip(names, row, strict=True)) | times | {"source": label, "log_residual": 0.4}
        for row in found
    ]


def study(folder, labels=("card",), hosts=(), **changes):
    """Write tables of some cards, each with its CPU, and hosts without card; return the folder."""
    cells = []
    for label in labels:
        for n in (512, 2048):
            for memory in ("pageable", "pinned"):
                for block in (8, 32):
                    for variant, scale in (("naive", 8), ("block", 2), ("block_unroll4", 1)):
                        total_s = scale * n**3 * 1e-12 * (40 / block)
                        cells.append(gpu_cell(label, variant, n, total_s, block, memory))
            cells.append(gpu_cell(label, "novel", n, n**3 * 3e-12, None))
    for label in (*labels, *hosts):
        for n in (256, 512):
            cells.append(cpu_cell(label, "naive", n, n**3 * 2e-9, spread=None))
            cells += [cpu_cell(label, "blocked", n, n**3 * b * 1e-11, b) for b in (16, 64)]
    rows = [recording(label, **changes) for label in labels]
    rows += [recording(label, gpu=False, **changes) for label in hosts]
    models = [rho_row(label, 9.0, 12.0) for label in labels]
    predictions = [row for label in labels for row in predicted_rows(label)]
    rows = {"recordings": rows, "models": models, "model_predictions": predictions}
    tables(folder, summary=cells, **rows)
    return folder


def drawn(tables_dir, out):
    """Draw the figures; return the index by name."""
    write_figures(tables_dir, out)
    return {entry["name"]: entry for entry in json.loads((out / "figures.json").read_text())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("figures")
    study(base / "tables", labels=("card", "other"), hosts=("host",))
    drawn(base / "tables", base / "figures")
    return base / "figures"


def roots(folder):
    return {path.stem: ET.parse(path).getroot() for path in sorted(folder.glob("*.svg"))}


def texts(root):
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_every_card_host_and_source_has_its_figures(folder):
    index = json.loads((folder / "figures.json").read_text())
    kinds = {}
    for entry in index:
        kinds.setdefault(entry["source"], []).append(entry["kind"])
        assert (folder / f"{entry['name']}.svg").is_file()
    published = ["model", "residuals"]
    model = [*published, "residuals-all", "unseen"]
    assert kinds == {
        "card": [*GPU_KINDS, *CPU_KINDS, *model],
        "other": [*GPU_KINDS, *CPU_KINDS, *model],
        "host": ["headline", *CPU_KINDS],
        "": ["figure2"],
        "published": published,
    }
    assert len(list(folder.glob("*.svg"))) == len(index)


def test_a_host_without_gpu_and_no_recording_at_all_have_figures_too(tmp_path):
    index = drawn(study(tmp_path / "tables", labels=(), hosts=("host",)), tmp_path / "host")
    names = ["headline-host", "cpu-host", "cpu-blocks-host"]
    assert list(index) == [*names, "model-published", "residuals-published"]
    tables(tmp_path / "none")
    assert list(drawn(tmp_path / "none", tmp_path / "out")) == list(index)[3:]


def test_figures_are_the_same_bytes_in_another_process(tmp_path, folder):
    source = folder.parent / "tables"
    subprocess.run(
        [
            *(sys.executable, "-m", "analysis", "figures"),
            *("--tables", str(source), "--out", str(tmp_path)),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
    )
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert first == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_figures_that_are_no_longer_drawn_are_removed(tmp_path):
    study(tmp_path / "tables")
    drawn(tmp_path / "tables", tmp_path / "out")
    study(tmp_path / "tables", labels=(), hosts=("host",))
    index = drawn(tmp_path / "tables", tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out").glob("*.svg")} == set(index)


def test_no_id_occurs_twice_over_all_figures_and_every_reference_has_its_target(folder):
    ids = []
    for root in roots(folder).values():
        own = [element.get("id") for element in root.iter() if element.get("id")]
        used = re.findall(r"#([\w.-]+)", " ".join(_references(root)))
        assert used
        assert set(used) <= set(own)
        ids += own
    assert len(ids) == len(set(ids))


def _references(root):
    for element in root.iter():
        for name, value in element.attrib.items():
            if "url(" in value:
                yield from re.findall(r"url\((#[^)]*)\)", value)
            elif name.endswith("href"):
                yield value


def test_every_figure_is_an_image_with_title_and_description(folder):
    index = {e["name"]: e for e in json.loads((folder / "figures.json").read_text())}
    for name, root in roots(folder).items():
        assert root.get("role") == "img"
        labels = root.get("aria-labelledby").split()
        found = {e.get("id"): e.text for e in root if e.tag in (f"{SVG}title", f"{SVG}desc")}
        assert [found[label] for label in labels] == [
            index[name]["title"],
            index[name]["caption"],
        ]


def test_figures_take_the_pages_colour_and_font_and_bring_no_style_of_their_own(folder):
    for path in folder.glob("*.svg"):
        text = path.read_text()
        assert "currentColor" in text
        assert svg.INK not in text
        assert "DejaVu" not in text
        for foreign in ("<style", "<metadata", "<script", "<image", "<!DOCTYPE", "@import"):
            assert foreign not in text, (path.name, foreign)
        assert not re.search(r"https?://(?!www\.w3\.org/)", text)
        root = ET.fromstring(text)
        assert texts(root), "texts are texts, not outlines"
        # matplotlib's black stands wherever a colour was forgotten: unreadable on a dark page
        assert "#000000" not in text
        assert "#ffffff" not in text


_FACTOR = "predicted / measured time"


def test_axes_name_their_quantity_and_unit(folder):
    for name, root in roots(folder).items():
        words = " | ".join(texts(root))
        kind = name.partition("-")[0]
        others = {"split": "in %", "headline": "10 ms", "model": "gain"}
        others |= {"residuals": _FACTOR, "unseen": _FACTOR}
        assert others.get(kind, "GFLOP/s") in words, name
        if not name.startswith(("split", "cpu")):
            assert "log" in words, name


def test_figure_1_shows_every_variant_and_the_published_rates(folder):
    words = texts(roots(folder)["figure1-card"])
    for variant in ("naive", "block", "block_unroll4", "novel", "published"):
        assert variant in words, variant
    assert "rate at N = 2048 in GFLOP/s (logarithmic)" in words


def test_figure_2_shows_every_card_and_the_published_band(folder):
    words = texts(roots(folder)["figure2"])
    for name in ("Card (card)", "Card (other)", "published GTX 770", "published text, most cards"):
        assert name in words, name


def test_published_rates_are_those_of_the_published_tables(tmp_path):
    from analysis.figures import _published_rates

    rates = _published_rates(tables(tmp_path), 2048)
    found = {(r.is_cpu, r.variant): r.rate for r in rates.itertuples()}
    assert found == pytest.approx(
        {
            (True, "naive"): 2e-9 * 2048**3 / 103,
            (False, "naive"): 2e-9 * 2048**3 / 1.3,
            (False, "block"): 2e-9 * 2048**3 / 0.137,
            (False, "block_unroll4"): 2e-9 * 2048**3 / 0.058,
        }
    )


def test_naive_stands_in_figure_1_with_the_sources_block_alone(tmp_path, monkeypatch):
    study(tmp_path / "tables")
    path = tmp_path / "tables" / "summary.csv"
    summary = pd.read_csv(path)
    fast = (summary["variant"] == "naive") & (summary["block_size"] == 8)
    summary.loc[fast, "total_s"] = 1e-9
    summary.to_csv(path, index=False)
    seen = []
    monkeypatch.setattr(
        plots, "variants_at_size", lambda cells, *_: seen.append(cells) or style.new_figure()[0]
    )
    drawn(tmp_path / "tables", tmp_path / "out")
    naive = seen[0][(seen[0]["variant"] == "naive") & ~seen[0]["is_cpu"]]
    assert set(naive["block_size"]) == {32}


def test_simulated_figures_say_so(tmp_path):
    study(tmp_path / "tables", hosts=("host",), simulated=True)
    index = drawn(tmp_path / "tables", tmp_path / "out")
    for entry in index.values():
        if entry["source"] != "published":
            assert "SIMULATED" in entry["title"] + entry["caption"], entry["name"]
    assert any("SIMULATED" in text for text in texts(roots(tmp_path / "out")["figure2"]))


def test_names_from_outside_are_text(tmp_path):
    evil = "<script>$\\frac{$ alert('x')</script>" + "\u202e" + "x" * 300
    study(tmp_path / "tables", gpu_name=evil, cpu_model=evil)
    drawn(tmp_path / "tables", tmp_path / "out")
    for path in (tmp_path / "out").glob("*.svg"):
        text = path.read_text()
        assert "<script" not in text
        assert "\u202e" not in text
        assert ET.fromstring(text).tag == f"{SVG}svg"
    shown = [t for t in texts(roots(tmp_path / "out")["figure2"]) if t.startswith("<script>")]
    assert shown
    assert max(map(len, shown)) <= 40


def test_rates_and_their_bounds_are_inverted_times():
    cells = pd.DataFrame(
        {"total_s": [1.0], "total_low_s": [0.5], "total_high_s": [2.0], "batch": [2]}
        | {"m": [500], "n": [1000], "k": [1000]}
    )
    row = plots.with_rates(cells, "total").iloc[0]
    assert (row["rate"], row["rate_low"], row["rate_high"]) == (2.0, 1.0, 4.0)


def test_a_value_without_interval_is_a_hollow_marker():
    frame = pd.DataFrame(
        {"x": [1, 2], "y": [1.0, 2.0], "low": [0.9, np.nan], "high": [1.1, np.nan]}
    )
    _, (axis,) = style.new_figure()
    style.points(axis, frame, "x", ("y", "low", "high"), style.Look("#1f7ec2", "o", "-"))
    filled, hollow = axis.collections[1:]
    assert filled.get_offsets().tolist() == [[1.0, 1.0]]
    assert len(filled.get_facecolor()) == 1
    assert hollow.get_offsets().tolist() == [[2.0, 2.0]]
    assert len(hollow.get_facecolor()) == 0
    (line,) = axis.collections[0].get_segments()
    assert line.tolist() == [[1.0, 0.9], [1.0, 1.1]]


def test_the_curve_of_the_model_is_m0():
    rho = pd.Series({"value": 8.0, "value_low": 4.0, "value_high": np.inf})
    cells = pd.DataFrame([{"n": 512, "block_size": 8, "gain": 2.0, "role": "held out"}])
    cells = cells.assign(gain_low=np.nan, gain_high=np.nan, predicted_gain=3.0)
    (axis,) = model_plots.gains(cells, rho, "M7").axes
    curve = next(line for line in axis.lines if line.get_label() == "M0")
    block, gain = curve.get_data()
    assert gain == pytest.approx(8 * block / (8 + block))
    band = next(c for c in axis.collections if c.get_label() == "interval of ρ")
    top = band.get_paths()[0].vertices
    assert top[:, 1].max() == pytest.approx(32.0), "an unbounded ρ gives a gain of B"
    assert {"N = 512 (held out)", "M7"} <= set(axis.get_legend_handles_labels()[1])
    dotted = [line for line in axis.lines if line.get_linestyle() == ":"]
    assert any(list(line.get_ydata()) == [3.0] for line in dotted)


def test_gains_are_of_the_same_order_from_the_ends_of_both_intervals():
    cells = pd.DataFrame(predicted_rows("card"))
    cells = cells[(cells["kernels"] == "modelled") & (cells["model"] == "M8")]
    cells.loc[cells["variant"] == "naive", "predicted_s"] = 12.0
    found = gains_of(cells)
    assert sorted(zip(found["n"], found["block_size"], strict=True)) == [
        *((512, 8), (512, 32)),
        *((2048, 8), (2048, 32)),
    ]
    assert set(found["predicted_gain"]) == {4.0}
    assert set(found["gain_low"]) == {1.9 / 2.1}
    assert set(found["gain_high"]) == {2.1 / 1.9}


def test_errors_are_drawn_for_each_model_by_block_and_by_order():
    cells = pd.DataFrame(predicted_rows("card"))
    cells = cells[cells["kernels"] == "modelled"]
    axes = model_plots.errors(cells, ["M0", "M8"]).axes
    titles = [axis.get_title() for axis in axes]
    assert titles == ["M0, by B", "M0, by N", "M8, by B", "M8, by N"]
    places = np.concatenate([c.get_offsets() for c in axes[2].collections])
    assert set(places[:, 0]) == {0.5, 8, 32}, "what has no block size stands at the left"
    assert [text.get_text() for text in axes[2].get_xticklabels()] == ["none", "8", "32"]
    np.testing.assert_allclose(places[:, 1], np.exp(0.4))


def luminance(colour):
    """Return the relative luminance of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_stands_out_on_a_light_and_on_a_dark_page():
    keys = [(False, name) for name in "abcdefgh"]
    colours = {look.colour for look in style.looks(keys).values()}
    colours |= {look.colour for look in style.size_looks(range(20)).values()}
    colours |= {colour for _, colour, _ in style.PARTS.values()}
    for colour in colours:
        for page in ("#ffffff", "#13171f"):
            low, high = sorted((luminance(colour), luminance(page)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, page)


def test_a_variant_looks_the_same_whatever_stands_beside_it():
    alone = style.looks([(False, "block")])
    among = style.looks([(True, "blocked"), (False, "block"), (False, "aaa")])
    assert alone[(False, "block")] == among[(False, "block")]
    known = [look for key, look in among.items() if key != (False, "aaa")]
    assert len({(look.colour, look.marker) for look in known}) == len(known)


def test_drawing_leaves_the_settings_of_matplotlib_alone(tmp_path):
    before = dict(mpl.rcParams)
    drawn(study(tmp_path / "tables"), tmp_path / "out")
    assert dict(mpl.rcParams) == before
