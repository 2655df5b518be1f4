"""Benchmarks of the project: its timing compared with other tools, and its measuring cost."""
