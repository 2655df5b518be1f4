"""Shared by several tests: fakes, simulated recordings, known data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Sources that changed after the published recordings (marked on the page). New recordings empty it.
AWAITING = {"cpu_reference/packed.c"}
AWAITING |= {
    f"kernels/{name}.cu" for name in ("pad_rows", "sgemm_stream_k", "sgemm_tensor_tma", "sgemm_top")
}
