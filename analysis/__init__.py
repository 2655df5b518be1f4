"""Compute tables, fits and figures from recordings and published tables, without a device."""
