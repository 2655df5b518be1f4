"""Citing the study, and packing it into archives."""
