"""Benchmarks of the project itself: its timing compared with other tools, and its cost."""
