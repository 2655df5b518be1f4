"""Shared by several tests: fakes, simulated recordings, known data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Sources that changed after the published recordings, which the page marks; new recordings empty it.
AWAITING = {"cpu_reference/packed.c"}
