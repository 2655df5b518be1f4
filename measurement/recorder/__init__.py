"""Making a recording from start to end: devices, provenance, samples, files."""
