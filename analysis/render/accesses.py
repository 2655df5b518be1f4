"""Drawings of a warp's memory accesses: lines from its lanes to sectors or banks."""

from markupsafe import Markup

from kernels.catalog.walk import Drawing
from kernels.theory.cost import WARP

_STEP, _HEIGHT, _TOP = 10, 8, 24  # of cells in the drawing, in units of the viewBox
_WIDTHS = {True: 9, False: 6}  # widths of cells with a neighbour and of separate cells


def access_svg(drawn: Drawing) -> Markup:
    """Return a drawing as SVG: a line per lane, and a square per sector or bank."""
    lane, cell = (_STEP * (WARP - len(row)) // 2 for row in (drawn.lanes, drawn.cells))  # centred
    starts = range(lane + _STEP // 2, _STEP * WARP, _STEP)
    ends = (cell + _STEP * place + _STEP / 2 for place in drawn.lanes)
    lines = "".join(f"M{x} 0L{end:.0f} {_TOP}" for x, end in zip(starts, ends, strict=False))
    squares: dict[str, str] = {}
    for place, lanes_or_words in enumerate(drawn.cells):
        kind = "none" if not lanes_or_words else "touched"
        if drawn.is_shared and lanes_or_words > 1:
            kind = "conflict"
        width = _WIDTHS[any(drawn.is_joined[max(place - 1, 0) : place + 1])]
        x = cell + _STEP * place + (_STEP - width) // 2
        square = f"M{x} {_TOP}h{width}v{_HEIGHT}h-{width}z"
        squares[kind] = squares.get(kind, "") + square
    paths = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(kind, path) for kind, path in squares.items()
    )
    size = f"0 0 {WARP * _STEP} {_TOP + _HEIGHT + 1}"
    markup = Markup('<svg viewBox="{}" aria-hidden="true"><path d="{}"/>{}</svg>')
    return markup.format(size, lines, paths)
