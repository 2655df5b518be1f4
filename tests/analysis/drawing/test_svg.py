"""Figures as SVG: reproducible bytes, texts, ids, tooltips."""

import re
import xml.etree.ElementTree as ET
from itertools import product

import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from analysis.drawing import palette, style, svg
from kernels.catalog.entries import VARIANTS
from kernels.catalog.walk import STEPS

SVG = "{http://www.w3.org/2000/svg}"


def drawn(name="one", title="All of it"):
    """Return a figure with points, one of them without an interval, and bars."""
    frame = pd.DataFrame({"x": [1, 2], "y": [1.0, 2.0], "low": [0.9, None], "high": [1.1, None]})
    with style.theme():
        figure, axes = style.new_figure(columns=2)
        style.points(axes[0], frame, "x", ("y", "low", "high"), palette.Look("#1f7ec2", "o", "-"))
        svg.hover(axes[1].bar([1, 2], [3, 4], color="#1f7ec2").patches[0], ["three"])
        axes[1].set_title(title)
        return svg.render(figure, name)


@pytest.mark.slow
def test_a_rendered_figure_is_reproducible_and_has_tooltips_and_unique_ids():
    text = drawn()
    assert text == drawn()
    assert not re.search(r"20\d\d-\d\d-\d\d", text)
    assert "currentColor" in text
    foreign = (svg.INK, "<style", "<metadata", "<script", "<image", "<!DOCTYPE", "DejaVu")
    black = "#000000"  # the colour of matplotlib
    assert [words for words in (*foreign, black) if words in text] == []
    assert "All of it" in [element.text for element in ET.fromstring(text).iter(f"{SVG}text")]
    titles = [element.text for element in ET.fromstring(text).iter(f"{SVG}title")]
    assert (len(titles), titles[-1]) == (3, "three")
    assert any("0.9" in title and "1.1" in title for title in titles)
    figure, (axis,) = style.new_figure()
    svg.hover(axis.scatter([1, 2], [1, 2]), ["only one"])
    with pytest.raises(ValueError, match="1 tooltips for 2 marks"):
        svg.render(figure, "x")
    for name, figure in (("one", text), ("two", drawn("two"))):
        root = ET.fromstring(figure)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        assert all(each.startswith(f"{name}-") for each in ids)
        used = re.findall(r'(?:url\(|href=")#([^)"]*)', figure)
        assert set() < set(used) <= set(ids)
        assert (root.get("role"), root.get("aria-labelledby")) == ("img", f"caption-{name}")


def test_figure_labels_are_one_short_line_and_do_not_overlap():
    known = {"  card\n": "card", "a\u202eb": "ab", "x" * 40: "x" * 40, "$\\frac{": "$\\frac{"}
    long = "rack-7-blackwell-" + "x" * 50 + "-edition-gpu0"
    known[long] = "rack-7-blackwell-xxx…xxxxxx-edition-gpu0"
    assert {text: svg.label(text) for text in known} == known
    text = drawn(title="<script>$\\frac{$ alert('x')</script>")
    assert "<script" not in text
    assert ET.fromstring(text).tag == f"{SVG}svg"
    figure = style.new_figure(0, 0, width=3.0)[0]
    _, axis = figure.subplots(2, sharex=True)  # the labels of the first panel are invisible
    axis.set_xlim(16, 4096)
    style.ticks_at(axis, [16, 80, 96, 112, 128, 256, 1024, 1536, 2048, 3072, 4096])
    shown = re.findall(r">(\d+)</text>", svg.render(figure, "x"))
    assert [text for text in shown if int(text) >= 16] == ["16", "112", "256", "1024", "4096"]


def luminance(colour):
    """Return the relative luminance of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_contrast_and_are_those_of_one_family_or_gpu():
    looks = [*map(palette.kernel_look, [*VARIANTS, "mine"]), *palette.CPU.values()]
    looks += [*palette.size_looks(range(20)).values(), *palette.MEMORY.values()]
    looks += palette.gpu_looks(map(str, range(20))).values()
    colours = {look.colour for look in looks} | {colour for _, colour, _ in palette.PARTS.values()}
    for colour, page in product(colours, ("#ffffff", "#13171f")):
        low, high = sorted((luminance(colour), luminance(page)))
        assert (high + 0.05) / (low + 0.05) >= 3, (colour, page)
    families = {palette.family_of(name) for name in VARIANTS} | {palette.USER_SUPPLIED}
    assert families == set(palette.FAMILIES)
    gpus = palette.gpu_looks("abcdefgh").values()
    for looks in (palette.FAMILIES.values(), palette.CPU.values(), gpus):
        pairs = [(x.colour, x.marker) if isinstance(x, palette.Look) else x[1:] for x in looks]
        for seen in zip(*pairs, strict=True):
            assert len(set(seen)) == len(seen), "no colour or marker is used twice"
    for name in VARIANTS:
        look = palette.kernel_look(name)
        assert (look.colour, look.marker) == palette.FAMILIES[palette.family_of(name)][1:]
    own = [palette.kernel_look(step) for step in STEPS]
    assert len({(look.colour, look.line) for look in own}) == len(own), "steps of the walk differ"
    explored = [palette.explorer_look(False, name) for name in VARIANTS]
    assert len(set(explored)) == len(explored)
