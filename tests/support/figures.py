"""Figures drawn from a few rows by hand, and the contents of their SVG."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass

from analysis.data.devices import devices
from analysis.data.store import Store
from analysis.drawing import style, svg
from tests.support.report_data import recording

_SVG = "{http://www.w3.org/2000/svg}"


def device(label: str, gpu: bool = True, **changes: object) -> dict[str, object]:
    """Return a row of recordings.csv; the recording of the GPU `label` is "of `label`"."""
    return recording(label, gpu) | {"recording": f"of {label}"} | changes


@dataclass(frozen=True)
class Drawn:
    """The contents of an SVG: texts, and the tooltip and style of each mark."""

    texts: list[str]
    marks: list[tuple[str, str]]

    @property
    def tooltips(self) -> list[str]:
        return sorted(text for text, _ in self.marks)

    @property
    def hollow(self) -> list[str]:
        return sorted(text for text, style in self.marks if "fill: none" in style)


def drawn(draw, store: Store, focus: str | None = None) -> Drawn:
    """Draw a figure of FIGURES; fail if there is none."""
    with style.theme():
        figure = draw(store, devices(store, focus))
        assert figure is not None
        root = ET.fromstring(svg.render(figure, "name"))
    titled = [(mark, title) for mark in root.iter() for title in mark.findall(f"{_SVG}title")]
    marks = [(_plain(title), mark.get("style", "")) for mark, title in titled]
    return Drawn([_plain(text) for text in root.iter(f"{_SVG}text")], marks)


def _plain(element: ET.Element) -> str:
    return (element.text or "").replace("\xa0", " ").replace("\u202f", " ")


def nothing(draw, store: Store) -> bool:
    with style.theme():
        return draw(store, devices(store)) is None
