"""Estimating from samples: medians, intervals, significance, fits."""
