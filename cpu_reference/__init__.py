"""Matrix multiplication on the CPU: C sources, their catalog, their build and Python binding."""
