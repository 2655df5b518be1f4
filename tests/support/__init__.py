"""What several tests share: stand-ins, simulated recordings, known data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
