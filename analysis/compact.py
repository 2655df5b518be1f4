"""Say the same drawing in fewer bytes: what matplotlib repeats for every mark is said once.

A page holds dozens of figures with thousands of marks, each of which matplotlib wraps in groups of
its own, with a style of its own. Nothing that is seen changes but coordinates, by less than a
tenth of a point.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from itertools import groupby

SVG = "{http://www.w3.org/2000/svg}"
# Said once at the root, and inherited from there.
ROOT_STYLE = (
    "fill:currentColor;font-family:system-ui,sans-serif;stroke-linejoin:round;stroke-linecap:butt"
)
_INHERITED = ("fill:currentColor", "font-family:")
_UNSEEN = "fill:none"
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")
_COMMAND = re.compile(r"([A-Za-z])([^A-Za-z]*)")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NO_TURN = re.compile(r" ?rotate\(-?0 [^)]*\)")
# How matplotlib draws one, around the origin and beginning below it.
_CIRCLE = "MCCCCCCCCz"
# A mark alone takes fewer bytes than a marker and its line.
_FEWEST_ON_A_LINE = 4
# Within an axis or a legend, lines, marks and texts alternate; alike beside alike they can be drawn
# together.
_MIXED = ("matplotlib.axis", "legend")
_ORDER = (f"{SVG}path", f"{SVG}use", f"{SVG}text")


def compact(root: ET.Element, prefix: str) -> None:
    """Shorten the drawing `root` in place; its ids become `prefix` and a number.

    Only ids that something refers to are kept. `root` is what matplotlib's SVG backend writes,
    without style sheet; texts stay texts.
    """
    root.attrib.pop("version", None)
    _drop_idle_clips(root)
    for element in root.iter():
        _shorten(element)
    for element in root.iter(f"{SVG}g"):
        if element.get("id", "").startswith(_MIXED):
            _flatten(element, _is_plain_group)
            element[:] = sorted(element, key=_place_in_group)
    definitions = _gather_definitions(root)
    for element in list(root.iter()):
        _string(element, definitions)
    _renumber(root, prefix)
    _flatten(root, _is_bare)
    for element in list(root.iter()):
        _merge(element)
    for element in list(root.iter()):
        _share(element)
    root.set("style", ROOT_STYLE)


def _shorten(element: ET.Element) -> None:
    """Write one element's numbers and style with as few characters as they need."""
    if element.tag != f"{SVG}text":
        element.text = None
    element.tail = None
    if "transform" in element.attrib:
        element.set("transform", _NO_TURN.sub("", element.attrib["transform"]))
        if not element.attrib["transform"]:
            del element.attrib["transform"]
    for key in {"x", "y", "width", "height", "transform"} & set(element.attrib):
        element.set(
            key, _NUMBER.sub(lambda found: _number(float(found.group())), element.attrib[key])
        )
    if "d" in element.attrib:
        # Marks are drawn around their own origin, a few points wide.
        is_mark, data = "id" in element.attrib, element.attrib["d"]
        is_circle = is_mark and "".join(re.findall("[A-Za-z]", data)) == _CIRCLE
        element.set("d", _circle(data) if is_circle else _path(data, 2 if is_mark else 1))
    if "style" in element.attrib:
        rules = [rule.strip().replace(": ", ":") for rule in element.attrib["style"].split(";")]
        kept = [rule for rule in rules if rule and not rule.startswith(_INHERITED)]
        element.set("style", ";".join(kept))
        if not kept:
            del element.attrib["style"]


def _number(value: float, digits: int = 1) -> str:
    """Return a number rounded to `digits` decimals, without what need not be written."""
    short = f"{value:.{digits}f}"
    short = short.rstrip("0").rstrip(".") if "." in short else short
    return {"-0": "0"}.get(short, re.sub(r"^(-?)0\.", r"\1.", short))


def _circle(data: str) -> str:
    """Return matplotlib's circle as two arcs."""
    radius = _number(float(_NUMBER.findall(data)[1]), 2)
    arcs = (f"A{radius} {radius} 0 1 1 0 {sign}{radius}" for sign in ("-", ""))
    return "".join([f"M0 {radius}", *arcs, "z"])


def _path(data: str, digits: int) -> str:
    """Return path data with rounded numbers, lines as steps from where they begin."""
    written: list[str] = []
    scale, at, start, last = 10**digits, [0, 0], [0, 0], ""
    for letter, numbers in _COMMAND.findall(data):
        values = [round(scale * float(number)) for number in numbers.split()]
        place = values[-2:] or start
        if letter == "L":
            letter, values = _step(at, place)
        # After a move, further points are lines.
        goes_on = letter == last and letter != "M"
        text = " ".join(
            [*([""] if goes_on else []), *(_number(each / scale, digits) for each in values)]
        )
        written.append(text.replace(" -", "-") if goes_on else letter + text.replace(" -", "-"))
        start = place if letter == "M" else start
        at, last = place, letter
    return "".join(written)


def _step(at: list[int], to: list[int]) -> tuple[str, list[int]]:
    """Return the command that draws a line from `at` to `to`."""
    right, down = (b - a for a, b in zip(at, to, strict=True))
    if right and down:
        return "l", [right, down]
    return ("v", [down]) if down else ("h", [right])


def _place_in_group(element: ET.Element) -> int:
    return _ORDER.index(element.tag) if element.tag in _ORDER else len(_ORDER)


def _renumber(root: ET.Element, prefix: str) -> None:
    """Give what is referred to a short id, and nothing else one."""
    used = list(dict.fromkeys(name for element in root.iter() for name in _references(element)))
    short = {name: f"{prefix}{number}" for number, name in enumerate(used)}
    for definitions in root.findall(f"{SVG}defs"):
        definitions[:] = [each for each in definitions if each.get("id") in short]
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in short:
            element.set("id", short[name])
        for key, value in element.attrib.items():
            if key == "href":
                element.set(key, f"#{short[value[1:]]}")
            else:
                element.set(key, _REFERENCE.sub(lambda m: f"url(#{short[m.group(1)]})", value))


def _references(element: ET.Element) -> Iterator[str]:
    for key, value in element.attrib.items():
        if key == "href":
            yield value.removeprefix("#")
        yield from _REFERENCE.findall(value)


def _gather_definitions(root: ET.Element) -> ET.Element:
    """Put all definitions into one element at the start, equal ones once; return it."""
    found: dict[bytes, str] = {}
    named: dict[str, str] = {}
    definitions = ET.Element(f"{SVG}defs")
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag == f"{SVG}defs"]:
            parent.remove(child)
            for each in child:
                name = each.attrib.pop("id")
                named[name] = found.setdefault(ET.tostring(each), name)
                if named[name] == name:
                    each.set("id", name)
                    definitions.append(each)
    for element in root.iter():
        if "href" in element.attrib:
            name = element.attrib["href"].removeprefix("#")
            element.set("href", f"#{named.get(name, name)}")
    root.insert(0, definitions)
    return definitions


def _string(parent: ET.Element, definitions: ET.Element) -> None:
    """Put equal marks that follow each other onto one unseen line, as markers at its points."""
    shapes = {f"#{each.get('id')}": each for each in definitions}
    children: list[ET.Element] = []
    runs = groupby(list(parent), lambda each: (each.tag, each.get("href"), each.get("style", "")))
    for (tag, href, style), run in runs:
        alike = list(run)
        if tag != f"{SVG}use" or len(alike) < _FEWEST_ON_A_LINE:
            children += alike
            continue
        name = _marker(shapes[href], style, definitions)
        points = "L".join(f"{each.get('x')} {each.get('y')}" for each in alike)
        line = {"d": _path(f"M{points}", 1), "style": f"{_UNSEEN};marker:url(#{name})"}
        children.append(ET.Element(f"{SVG}path", line))
    parent[:] = children


def _marker(shape: ET.Element, style: str, definitions: ET.Element) -> str:
    """Return the id of the marker that draws `shape` in `style`; it is defined where it is not."""
    look = ";".join(filter(None, [style, shape.get("style")]))
    name = f"{shape.get('id')} {look}".replace(" ", "_")
    if all(each.get("id") != name for each in definitions):
        said = {"id": name, "markerUnits": "userSpaceOnUse", "overflow": "visible"}
        marker = ET.SubElement(definitions, f"{SVG}marker", said)
        ET.SubElement(
            marker, f"{SVG}path", {"d": shape.attrib["d"]} | ({"style": look} if look else {})
        )
    return name


def _drop_idle_clips(root: ET.Element) -> None:
    """Remove the clipping of what lies inside of its clip anyway."""
    boxes = {}
    for clip in root.iter(f"{SVG}clipPath"):
        x, y, width, height = (float(clip[0].attrib[k]) for k in ("x", "y", "width", "height"))
        boxes[f"url(#{clip.get('id')})"] = (x, x + width), (y, y + height)
    for element in root.iter():
        box = boxes.get(element.get("clip-path", ""))
        if box and all(_is_within(point, box) for point in _points(element)):
            del element.attrib["clip-path"]


def _points(element: ET.Element) -> Iterator[tuple[float, float]]:
    """Yield the points of paths (a curve's control points too) and the places of marks."""
    for each in element.iter():
        numbers = [float(number) for number in _NUMBER.findall(each.get("d", ""))]
        yield from zip(numbers[::2], numbers[1::2], strict=True)
        if "x" in each.attrib:
            yield float(each.attrib["x"]), float(each.attrib["y"])


def _is_within(point: tuple[float, float], box: tuple[tuple[float, float], ...]) -> bool:
    return all(low - 0.01 <= at <= high + 0.01 for at, (low, high) in zip(point, box, strict=True))


def _is_bare(element: ET.Element) -> bool:
    """Whether a group says nothing, or an element draws nothing."""
    if element.tag == f"{SVG}path" and "id" not in element.attrib:
        return element.get("style") == _UNSEEN
    return element.tag == f"{SVG}g" and not (element.attrib and len(element))


def _is_plain_group(element: ET.Element) -> bool:
    return element.tag == f"{SVG}g" and set(element.attrib) <= {"id"}


def _flatten(parent: ET.Element, is_bare: Callable[[ET.Element], bool]) -> None:
    """Replace, at every depth, an element that `is_bare` says nothing of by its children."""
    children: list[ET.Element] = []
    for child in parent:
        _flatten(child, is_bare)
        children += list(child) if is_bare(child) else [child]
    parent[:] = children


def _merge(parent: ET.Element) -> None:
    """Join neighbouring lines of one look into one path."""
    children: list[ET.Element] = []
    for child in parent:
        before = children[-1] if children else None
        if before is not None and _are_lines(before, child):
            before.set("d", before.attrib["d"] + child.attrib["d"])
        else:
            children.append(child)
    parent[:] = children


def _are_lines(first: ET.Element, second: ET.Element) -> bool:
    looks = [{k: v for k, v in each.attrib.items() if k != "d"} for each in (first, second)]
    is_path = first.tag == second.tag == f"{SVG}path" and "id" not in first.attrib
    return is_path and looks[0] == looks[1] and _UNSEEN in looks[0].get("style", "")


def _share(parent: ET.Element) -> None:
    """Let neighbours of one style share it: in their group if it has none, else in a new one."""
    if parent.tag not in (f"{SVG}g", f"{SVG}svg"):
        return
    children: list[ET.Element] = []
    for (style, _), run in groupby(list(parent), lambda each: (each.get("style"), each.tag)):
        alike = list(run)
        if style is None or len(alike) == 1:
            children += alike
            continue
        for each in alike:
            del each.attrib["style"]
        if len(alike) == len(parent) and "style" not in parent.attrib:
            parent.set("style", style)
            children += alike
        else:
            group = ET.Element(f"{SVG}g", {"style": style})
            group.extend(alike)
            children.append(group)
    parent[:] = children
