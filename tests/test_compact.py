"""Compact drawings: fewer bytes, and every mark, line and text where it was and as it looked."""

import io
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import matplotlib as mpl
import pytest

from analysis import style
from analysis.compact import SVG, compact

LOOK = ("fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray")
ROOT = {"fill": "currentColor", "stroke": "none", "font-size": "", "font-weight": ""}
TEXT = ("font-size", "font-weight", "text-anchor")
COMMAND = re.compile(r"([MLlhvCz])([^A-Za-z]*)")
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


@pytest.fixture(scope="module")
def original():
    """A figure with all that the report's have: two panels, lines, bands, bars, marks, labels."""
    with style.theme():
        figure, (left, right) = style.new_figure(columns=2)
        for position, key in enumerate("abc"):
            look = style.looks([(False, key)])[(False, key)]
            left.plot([1, 10, 100], [position + 0.123, 2.5, 3.5], look.line, color=look.colour)
            left.vlines([1, 10, 100], [1, 2, 3], [2, 3, 4], color=look.colour, linewidth=1.6)
            left.scatter([1, 10, 100], [1.5, 2.5, 3.5], color=look.colour, marker=look.marker)
            marks = {"color": look.colour, "marker": look.marker}
            left.scatter([2, 5, 9, 30], [1.1, 1.2, 2.2, 1.3], **marks)
            left.scatter([20], [2.5], facecolors="none", edgecolors=look.colour)
        left.set_ylim(1, 3)  # some of it is cut off
        left.fill_between([1, 10, 100], [1, 1, 1], [2, 3, 2], color=style.GREY, alpha=0.3)
        style.ticks_at(left, [1, 4, 16])
        right.bar([0, 1, 2], [3, 2, 1], color="#d55e00", hatch="/", linewidth=0)
        right.set_title("title")
        right.text(0.5, 1.5, "turned", rotation=30)
        left.plot([], [], label="named", marker="o")
        left.legend()
        buffer = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "test"}):
            figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue().replace("xlink:href", "href"))
    for tag in ("metadata", "style"):
        for parent in list(root.iter()):
            for child in parent.findall(f"{SVG}{tag}"):
                parent.remove(child)
    return ET.tostring(root)


@pytest.fixture(scope="module")
def shortened(original):
    root = ET.fromstring(original)
    compact(root, "f1-")
    return root


def styles(element, inherited):
    """Return what an element looks like: its own style upon what it inherits."""
    text = re.sub(r"url\(#[^)]*\)", "pattern", element.get("style", ""))
    own = dict(rule.split(":", 1) for rule in text.split(";") if rule.strip())
    return inherited | {name.strip(): value.strip() for name, value in own.items()}


def strokes(data):
    """Return the points of each part of a path, curves by their control points, in absolute.

    Of a circle, however it is drawn, those at its ends.
    """
    start = [float(number) for number in NUMBER.findall(data)[:2]]
    if start[0] == 0 and (data.count("C") == 8 or "A" in data):
        radius = abs(start[1])
        return [[(0.0, radius), (0.0, -radius)]]
    parts, at = [], (0.0, 0.0)
    for letter, text in COMMAND.findall(data):
        values = [float(number) for number in NUMBER.findall(text)]
        if letter == "M":
            parts.append([])
        if letter == "z":
            continue
        if letter in "hv":
            steps = [(v, 0.0) if letter == "h" else (0.0, v) for v in values]
            letter, values = "l", [each for step in steps for each in step]
        for x, y in zip(values[::2], values[1::2], strict=True):
            at = (at[0] + x, at[1] + y) if letter == "l" else (x, y)
            parts[-1].append(at)
    return parts


def drawn(root):
    """Return all that is seen: (kind, look, whether it reaches beyond its clip, points)."""
    boxes = {}
    for clip in root.iter(f"{SVG}clipPath"):
        x, y, width, height = (float(clip[0].get(k)) for k in ("x", "y", "width", "height"))
        boxes[f"url(#{clip.get('id')})"] = (x - 0.2, y - 0.2, x + width + 0.2, y + height + 0.2)
    shapes = {each.get("id"): each for each in root.iter() if each.get("id")}
    found = []

    def visit(element, inherited, cut):
        if element.tag == f"{SVG}defs":
            return
        own = styles(element, inherited)
        cut = element.get("clip-path") or cut
        look = [own.get(name, "") for name in LOOK]
        marker = re.search(r"marker:url\(#([^)]*)\)", element.get("style", ""))
        if marker:
            (shape,) = shapes[marker.group(1)]
            worn = styles(shape, ROOT)
            (outline,) = strokes(shape.get("d"))
            for points in strokes(element.get("d")):
                for place in points:
                    look = [worn.get(name, "") for name in LOOK]
                    found.append(("mark", look, is_cut([place], boxes.get(cut)), [place, *outline]))
        elif element.tag == f"{SVG}path" and (own["fill"], own["stroke"]) != ("none", "none"):
            for points in strokes(element.get("d")):
                found.append(("path", look, is_cut(points, boxes.get(cut)), points))
        elif element.tag == f"{SVG}use":
            shape = shapes[element.get("href")[1:]]
            worn = styles(shape, own)
            place = (float(element.get("x")), float(element.get("y")))
            (outline,) = strokes(shape.get("d"))
            look = [worn.get(name, "") for name in LOOK]
            found.append(("mark", look, is_cut([place], boxes.get(cut)), [place, *outline]))
        elif element.tag == f"{SVG}text":
            turned = element.get("transform", "")
            place = [float(element.get(axis, "0")) for axis in "xy"]
            numbers = [float(number) for number in NUMBER.findall(turned)]
            kept = [] if turned.startswith("rotate(-0 ") else numbers
            words = [element.text, *(own.get(name, "") for name in TEXT)]
            found.append(("text", words, False, [place, *pairwise(kept)]))
        for child in element:
            visit(child, own, cut)

    visit(root, ROOT, "")
    return found


def is_cut(points, box):
    """Whether a clip takes something away from what goes through these points."""
    if box is None:
        return False
    left, top, right, bottom = box
    return not all(left <= x <= right and top <= y <= bottom for x, y in points)


def test_everything_is_drawn_where_it_was_and_as_it_looked(original, shortened):
    before, after = drawn(ET.fromstring(original)), drawn(shortened)
    assert len(before) == len(after) > 60
    assert sum(cut for *_, cut, _ in before) > 3
    for *what, points in before:
        twins = [each for each in after if list(each[:3]) == what and near(each[3], points)]
        assert twins, (what, points)
        after.remove(twins[0])
    assert after == []


def near(first, second):
    return len(first) == len(second) and all(
        abs(a - b) < 0.11
        for one, two in zip(first, second, strict=True)
        for a, b in zip(one, two, strict=True)
    )


def test_it_takes_less_than_half_of_the_bytes(original, shortened):
    assert len(ET.tostring(shortened)) < 0.5 * len(original)


def test_a_clip_that_takes_nothing_away_is_left_out(original, shortened):
    clips = [root.findall(f".//{SVG}clipPath") for root in (ET.fromstring(original), shortened)]
    assert [len(found) for found in clips] == [2, 1]


def test_only_ids_that_are_referred_to_remain_and_all_bear_the_prefix(shortened):
    ids = [each.get("id") for each in shortened.iter() if each.get("id")]
    text = ET.tostring(shortened, encoding="unicode")
    assert len(ids) == len(set(ids)) > 5
    for name in ids:
        assert name.startswith("f1-")
        assert f"#{name}" in text
    assert set(re.findall(r"#(f1-\w+)", text)) == set(ids)
