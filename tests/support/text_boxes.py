"""Texts of figures, measured in the browser: their faults."""

# Per figure: texts that overlap each other, leave the SVG, or are crossed by a line. Grid lines,
# whose opacity is below 0.3, and lines hidden by a patch behind the text may cross. A text may
# touch: 1 pixel of each side does not count.
FAULTS = """() => {
  const found = [];
  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 &&
    a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const after = (a, b) => a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING;
  for (const svg of document.querySelectorAll("figure.plot > .scroll > svg")) {
    const name = svg.closest("figure").id;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim());
    if (!frame.width || !texts.length) { found.push(`${name}: nothing drawn`); continue; }
    const boxes = texts.map(text => text.getBoundingClientRect());
    const paths = [...svg.querySelectorAll("path")].filter(path => !path.closest("defs"));
    const patches = paths.filter(path => path.style.fill.startsWith("var(--pico-background"));
    const lines = paths.filter(({style}) => style.fill === "none" && style.stroke &&
      style.stroke !== "none" && !(parseFloat(style.strokeOpacity) < 0.3)).map(path => {
        const place = path.getScreenCTM(), length = path.getTotalLength(), points = [];
        const steps = Math.min(4000, Math.ceil(length / 2)) || 1;
        for (let step = 0; step <= steps; ++step)
          points.push(path.getPointAtLength(length * step / steps).matrixTransform(place));
        return [path, points];
      });
    texts.forEach((text, at) => {
      const box = boxes[at], told = `${name}: ${text.textContent}`;
      if (!inside(box, frame)) found.push(`${told}: clipped`);
      for (let other = at + 1; other < texts.length; ++other)
        if (meet(box, boxes[other])) found.push(`${told}: overlaps ${texts[other].textContent}`);
      const above = patches.filter(patch => inside(
        {left: box.left + 3, right: box.right - 3, top: box.top + 3, bottom: box.bottom - 3},
        patch.getBoundingClientRect()));
      const crossed = lines.some(([path, points]) =>
        !above.some(patch => after(path, patch) && after(patch, text)) &&
        points.some(p => p.x > box.left + 1 && p.x < box.right - 1 &&
          p.y > box.top + 2 && p.y < box.bottom - 2));
      if (crossed) found.push(`${told}: crossed by a line`);
    });
  }
  return found;
}"""
