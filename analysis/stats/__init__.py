"""Estimates from samples: medians, intervals, significance, fits."""
