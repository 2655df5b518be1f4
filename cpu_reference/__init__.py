"""The CPU side of the comparison: C sources, catalog, build and binding."""
