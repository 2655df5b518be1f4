"""Turn a matplotlib figure into an SVG that can be inlined in a page, read aloud and reproduced."""

import io
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
from matplotlib.figure import Figure

from analysis.compact import SVG, compact

# What is drawn in this colour takes the colour of the surrounding text (dark mode, print).
INK = "#010203"

_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_LONGEST_LABEL = 40

ET.register_namespace("", SVG.strip("{}"))


def label(text: object) -> str:
    """Return `text` fit for a label inside a figure: one line, no control marks, not too long."""
    clean = _CONTROL.sub("", str(text)).strip()
    return clean if len(clean) <= _LONGEST_LABEL else clean[: _LONGEST_LABEL - 1] + "…"


def render(figure: Figure, name: str, prefix: str, title: str, description: str) -> str:
    """Return `figure` as SVG text.

    `name` begins the ids of title and description, which are what a screen reader says; `prefix`,
    those of all parts: many such figures stand in one page. The text depends on the figure alone:
    no date, no version, no drawn ids. Axes and texts drawn in `INK` become ``currentColor``; texts
    stay texts.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())
    _drop(root, f"{SVG}metadata")
    _drop(root, f"{SVG}style")
    for element in root.iter():
        _hand_over(element)
    compact(root, f"{prefix}-")
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for position, (tag, text) in enumerate([("title", title), ("desc", description)]):
        element = ET.Element(f"{SVG}{tag}", {"id": f"{name}-{tag}"})
        element.text = _CONTROL.sub("", text)
        root.insert(position, element)
    return ET.tostring(root, encoding="unicode") + "\n"


def _drop(root: ET.Element, tag: str) -> None:
    """Remove every element `tag`: matplotlib's style sheet would apply to the whole page."""
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag == tag]:
            parent.remove(child)


def _hand_over(element: ET.Element) -> None:
    """Write references as HTML knows them, and hand the colour of texts and axes to the page."""
    target = element.attrib.pop(_XLINK_HREF, None)
    if target is not None:
        element.set("href", target)
    for key, value in list(element.attrib.items()):
        # XML would keep each line break of a path as an escape.
        flat = " ".join(value.split()).replace("rotate(-0 ", "rotate(0 ")
        element.set(key, flat.replace(INK, "currentColor"))
