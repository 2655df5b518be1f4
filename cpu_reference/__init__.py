"""CPU matrix multiplication: C sources, catalog, build and Python binding."""
