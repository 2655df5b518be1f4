"""Figures as SVG: reproducible bytes, texts, ids, tooltips."""

import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from analysis.drawing import palette, style, svg

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


def test_a_figure_is_the_same_bytes_again():
    assert drawn() == drawn()
    assert not re.search(r"20\d\d-\d\d-\d\d", drawn())


def test_a_figure_uses_the_colour_and_font_of_the_page():
    text = drawn()
    assert "currentColor" in text
    assert svg.INK not in text
    for foreign in ("<style", "<metadata", "<script", "<image", "<!DOCTYPE", "DejaVu"):
        assert foreign not in text
    assert "#000000" not in text, "matplotlib's black stands wherever a colour was forgotten"
    assert "All of it" in [element.text for element in ET.fromstring(text).iter(f"{SVG}text")]


@pytest.mark.slow
def test_ids_are_unique_per_figure_and_references_have_targets():
    for name in ("one", "two"):
        root = ET.fromstring(drawn(name))
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        assert all(each.startswith(f"{name}-") for each in ids)
        used = re.findall(r'(?:url\(|href=")#([^)"]*)', drawn(name))
        assert used
        assert set(used) <= set(ids)
        assert (root.get("role"), root.get("aria-labelledby")) == ("img", f"caption-{name}")


def test_every_mark_has_a_tooltip():
    titles = [element.text for element in ET.fromstring(drawn()).iter(f"{SVG}title")]
    assert len(titles) == 3
    assert titles[-1] == "three"
    assert any("0.9" in title and "1.1" in title for title in titles)


def test_a_wrong_number_of_tooltips_is_an_error():
    figure, (axis,) = style.new_figure()
    svg.hover(axis.scatter([1, 2], [1, 2]), ["only one"])
    with pytest.raises(ValueError, match="1 tooltips for 2 marks"):
        svg.render(figure, "x")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("  card\n", "card"),
        ("a\u202eb", "ab"),
        ("x" * 50, "x" * 39 + "…"),
        ("$\\frac{", "$\\frac{"),
    ],
)
def test_labels_are_one_short_line_without_control_characters(text, label):
    assert svg.label(text) == label


def test_names_are_escaped():
    text = drawn(title="<script>$\\frac{$ alert('x')</script>")
    assert "<script" not in text
    assert ET.fromstring(text).tag == f"{SVG}svg"


def luminance(colour):
    """Return the relative luminance of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_has_contrast_on_the_light_and_the_dark_page():
    shown = palette.looks([(False, name) for name in "abcdefgh"]).values()
    colours = {look.colour for look in shown}
    colours |= {look.colour for look in palette.size_looks(range(20)).values()}
    colours |= {look.colour for look in palette.gpu_looks(map(str, range(20))).values()}
    colours |= {colour for _, colour, _ in palette.PARTS.values()}
    for colour in colours:
        for page in ("#ffffff", "#13171f"):
            low, high = sorted((luminance(colour), luminance(page)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, page)


def test_the_look_of_a_variant_does_not_depend_on_the_others():
    alone = palette.looks([(False, "block")])
    among = palette.looks([(True, "blocked"), (False, "block"), (False, "aaa")])
    assert alone[(False, "block")] == among[(False, "block")]
    known = [look for key, look in among.items() if key != (False, "aaa")]
    assert len({(look.colour, look.marker) for look in known}) == len(known)
