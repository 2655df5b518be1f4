"""Shared by several tests: fakes, simulated recordings, known data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
