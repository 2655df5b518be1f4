"""A recording from start to end: devices, provenance, samples, files."""
