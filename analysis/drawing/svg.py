"""Converting a matplotlib figure to reproducible inline SVG with tooltips."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axis import Tick
from matplotlib.figure import Figure

# Placeholder for the colour of the surrounding text (dark mode, print).
INK = "#010203"
PAPER = "#030201"  # placeholder for the background of the page

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
_REFERENCE = re.compile(r"(url\(#|^#)")
# Coordinates keep two decimals, which are enough.
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_FONT = re.compile(r"font-family: [^;]*; ?")  # the root element sets the font once
_UPRIGHT = re.compile(r"rotate\(-0 .*")  # rotation by 0 degrees
_AROUND_COMMANDS = re.compile(r" ?([MLQCz]) ?")
_HOVER = "hover-"
_BETWEEN = "\u2028"  # XML would convert a line break in an attribute to a space
_LONGEST_LABEL = 40
_TICK_GAP = 4.0  # least space between tick labels, in points of 1/72 inch

ET.register_namespace("", _SVG.strip("{}"))


def label(text: object) -> str:
    """Return `text` as a figure label: one line without control characters, shortened.

    A long text keeps its end, because the GPUs of a host have names with the same start.
    """
    clean = _CONTROL.sub("", str(text)).strip()
    start, end = _LONGEST_LABEL // 2, _LONGEST_LABEL // 2 - 1
    return clean if len(clean) <= _LONGEST_LABEL else f"{clean[:start]}…{clean[-end:]}"


def hover(artist: Artist, texts: Sequence[str]) -> None:
    """Set the tooltips of a scatter or a bar: one text per mark, in the order of the marks."""
    artist.set_gid(_HOVER + _BETWEEN.join(_CONTROL.sub("", text) for text in texts))


def render(figure: Figure, name: str) -> str:
    """Return `figure` as SVG text, labelled by the element ``caption-NAME`` of the page.

    The text depends only on the figure: it has no date, version or random ids. `INK` becomes
    ``currentColor``, and texts stay texts. Ids begin with `name`, so they are unique in a page.
    """
    without_overlaps(figure)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())
    dropped = f"{_SVG}metadata", f"{_SVG}style"  # matplotlib's style would apply to the whole page
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in dropped]:
            parent.remove(child)
    for group in root.iter(f"{_SVG}g"):
        if group.get("id", "").startswith(_HOVER):
            _title(group, group.attrib.pop("id").removeprefix(_HOVER).split(_BETWEEN))
    referred = set(re.findall(r'(?:url\(|href=")#([^)"]+)', ET.tostring(root, encoding="unicode")))
    for element in root.iter():
        if element.get("id") not in referred:
            element.attrib.pop("id", None)
        if not (element.text or "").strip():
            element.text = None
        if not (element.tail or "").strip():
            element.tail = None
        _convert(element, f"{name}-")
    _ungroup(root)
    root.set("style", "font-family:system-ui,sans-serif")
    root.set("role", "img")
    root.set("aria-labelledby", f"caption-{name}")
    return ET.tostring(root, encoding="unicode") + "\n"


def without_overlaps(figure: Figure) -> None:
    """Remove tick labels where they would overlap.

    Powers of two are kept first, then those of ten, then the largest values.
    """
    figure.draw_without_rendering()
    for axis in [each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        ticks = [tick for tick in ticks if tick.label1.get_visible() and tick.label1.get_text()]
        kept: list[Tick] = []
        for tick in sorted(ticks, key=_priority):
            box = tick.label1.get_window_extent().padded(_TICK_GAP)
            if not any(box.overlaps(other.label1.get_window_extent()) for other in kept):
                kept.append(tick)
        if len(kept) < len(ticks):
            shown = {tick.get_loc(): tick.label1.get_text() for tick in kept}
            places = [tick.get_loc() for tick in ticks]
            axis.set_ticks(places, [shown.get(place, "") for place in places])


def _priority(tick: Tick) -> tuple[bool, bool, float]:
    text = tick.label1.get_text().replace("\u202f", "")
    value = float(text) if text.isdecimal() else 0.0
    logs = (np.log2(value), np.log10(value)) if value else (0.0, 0.0)
    return logs[0] % 1 != 0, logs[1] % 1 != 0, -tick.get_loc()


def _title(group: ET.Element, texts: list[str]) -> None:
    """Add a title to each mark of a group, except to the definitions of marks."""
    defined = {id(part) for defs in group.iter(f"{_SVG}defs") for part in defs.iter()}
    marks = [
        part
        for part in group.iter()
        if part.tag in (f"{_SVG}use", f"{_SVG}path") and id(part) not in defined
    ]
    if len(marks) != len(texts):
        raise ValueError(f"{len(texts)} tooltips for {len(marks)} marks: {texts[:1]}")
    for mark, text in zip(marks, texts, strict=True):
        ET.SubElement(mark, f"{_SVG}title").text = text


def _ungroup(parent: ET.Element) -> None:
    """Replace groups without attributes by their contents."""
    children = []
    for child in parent:
        _ungroup(child)
        children += [*child] if child.tag == f"{_SVG}g" and not child.attrib else [child]
    parent[:] = children


def _convert(element: ET.Element, prefix: str) -> None:
    """Convert references to HTML syntax, prefix ids, and replace the colours `INK` and `PAPER`."""
    target = element.attrib.pop(_XLINK_HREF, None)
    if target is not None:
        element.set("href", target)
    if _UPRIGHT.match(element.get("transform", "")):
        del element.attrib["transform"]
    for key, value in list(element.attrib.items()):
        # XML would escape every line break in a path, so they become spaces.
        flat = " ".join(value.split()).replace(INK, "currentColor")
        flat = flat.replace(PAPER, "var(--pico-background-color)")
        flat = _FONT.sub("", _DECIMALS.sub(r"\1", flat))
        if key == "d":
            flat = _AROUND_COMMANDS.sub(r"\1", flat)
        elif key == "id":
            flat = prefix + flat
        elif key == "href" or "url(#" in flat:
            flat = _REFERENCE.sub(rf"\g<1>{prefix}", flat)
        element.set(key, flat)
