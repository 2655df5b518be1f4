"""Shared parts of the figures: looks, axes, points with intervals, SVG output."""
