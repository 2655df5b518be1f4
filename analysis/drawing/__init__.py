"""Parts that the figures share: looks, axes, points with intervals, SVG output."""
