"""Turn a matplotlib figure into an SVG that can be inlined in a page, read aloud and reproduced."""

import io
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
from matplotlib.figure import Figure

# What is drawn in this colour takes the colour of the surrounding text (dark mode, print).
INK = "#010203"

_SVG = "http://www.w3.org/2000/svg"
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_LOCAL_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT_FAMILY = re.compile(r"'DejaVu Sans'[^;]*")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_LONGEST_LABEL = 40

ET.register_namespace("", _SVG)


def label(text: object) -> str:
    """Return `text` fit for a label inside a figure: one line, no control marks, not too long."""
    clean = _CONTROL.sub("", str(text)).strip()
    return clean if len(clean) <= _LONGEST_LABEL else clean[: _LONGEST_LABEL - 1] + "…"


def render(figure: Figure, name: str, title: str, description: str) -> str:
    """Return `figure` as SVG text.

    `name` prefixes every id, so that many such figures fit in one page. `title` and `description`
    are what a screen reader says. The text depends on the figure alone: no date, no version, ids
    from a fixed salt. Axes and texts drawn in `INK` become ``currentColor``; texts stay texts.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())
    _drop(root, f"{{{_SVG}}}metadata")
    _drop(root, f"{{{_SVG}}}style")
    for element in root.iter():
        _localise(element, name)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for position, (tag, text) in enumerate([("title", title), ("desc", description)]):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = _CONTROL.sub("", text)
        root.insert(position, element)
    return ET.tostring(root, encoding="unicode") + "\n"


def _drop(root: ET.Element, tag: str) -> None:
    """Remove every element `tag`: matplotlib's style sheet would apply to the whole page."""
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag == tag]:
            parent.remove(child)


def _localise(element: ET.Element, name: str) -> None:
    """Prefix ids and the references to them, and hand colours and fonts to the page."""
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    target = element.attrib.pop(_XLINK_HREF, None)
    if target is not None:
        element.set("href", f"#{name}-{target.removeprefix('#')}")
    for key in {"d", "x", "y", "transform"} & set(element.attrib):
        # XML would keep each line break of a path as an escape; a hundredth of a point is enough.
        flat = " ".join(element.attrib[key].split()).replace("rotate(-0 ", "rotate(0 ")
        element.set(key, _DECIMALS.sub(lambda m: f"{float(m.group()):.2f}", flat))
    for key, value in list(element.attrib.items()):
        if key in ("style", "clip-path", "fill", "stroke"):
            value = _LOCAL_REFERENCE.sub(rf"url(#{name}-\1)", value)
            value = _FONT_FAMILY.sub("system-ui, sans-serif", value)
            element.set(key, value.replace(INK, "currentColor"))
