"""Faulty kernels on a real GPU: only their cells fail."""

import json
import subprocess
from dataclasses import asdict, replace

import pytest
import yaml

from base.files import sha256
from kernels.cubins.compile import architecture, build_all, read_result
from kernels.cubins.toolchain import find_nvcc
from measurement.recorder import record as recorder
from measurement.recorder.record import record
from measurement.recording.recording import CELL
from study.config import validate
from study.plan import builds
from tests.support.fakes import CONFIG
from tests.support.gpu_lock import only_recording

pytestmark = pytest.mark.gpu
HEAD = 'extern "C" __global__ void block(const float *a, const float *b, float *c, int n) {\n'
PLACE = """
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || j >= n) return;
"""
PRODUCT = PLACE + "float sum = 0; for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];"
KERNELS = {
    "out of bounds": "c[(1LL << 40) + threadIdx.x] = 1;",
    "endless": "volatile float *first = c; while (first[0] != 12345) {}",
    "nan": PLACE + "c[i * n + j] = a[0] * __int_as_float(0x7fc00000);",
    "wrong": PRODUCT + "c[i * n + j] = i == 1 && j == 2 ? sum + 1 : sum;",
    "trap": "__trap();",
}


@pytest.fixture
def config():
    config = yaml.safe_load(CONFIG)
    config["study"] |= {"sizes": [64], "holdout_sizes": [100]}
    config["study"]["block_sizes"] = [8, 32]
    config["study"]["interference"]["block_size"] = 8
    config["study"]["protocol"] |= {"hang_limit_s": 5, "cold_starts": 1}
    return validate(config, "config.yaml")


@pytest.fixture
def spoilt(card, config, tmp_path, monkeypatch):
    """Return a function that replaces a build of the study by another kernel."""
    monkeypatch.setattr(recorder, "CACHE", tmp_path / "references")
    name = architecture(card.compute_capability)
    nvcc = find_nvcc()
    build_all(nvcc, builds(config.study), name, tmp_path, workers=4)

    def spoil(stem, body, **facts):
        cubin = tmp_path / name / f"{stem}.cubin"
        result = read_result(cubin)
        source = tmp_path / "spoilt.cu"
        source.write_text(HEAD.replace("block(", f"{result.variant}(") + body + "\n}\n")
        command = [nvcc, "-cubin", f"-arch={name}", "-o", cubin, source]
        subprocess.run(command, check=True)
        changed = replace(result, cubin_sha256=sha256(cubin), **facts)
        cubin.with_suffix(".json").write_text(json.dumps(asdict(changed)))
        with only_recording():
            made = record(config, card.index, tmp_path / "r", tmp_path)
        cells = made.checks[made.checks["device"] != "cpu"]
        return made, cells[(cells["variant"] == result.variant) & (cells["n"] == 64)], cells

    return spoil


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("out of bounds", "illegal memory access"),
        ("endless", "no answer within 5 s"),
        ("nan", "4096 of 4096 elements wrong; worst C(0, 0) = nan"),
        ("wrong", "1 of 4096 elements wrong; worst C(1, 2) = "),
        ("trap", "unspecified launch failure"),
    ],
)
def test_a_faulty_kernel_fails_only_its_configurations(spoilt, kind, reason):
    made, faulty, cells = spoilt("block-b8-float32-exact", KERNELS[kind])
    assert set(faulty["status"]) == {"failed"}
    assert faulty["reason"].str.contains(reason, regex=False).all(), set(faulty["reason"])
    others = cells[~cells.index.isin(faulty.index)]
    assert set(others["status"]) == {"passed"}
    assert len(faulty) == 2
    sampled = made.samples[made.samples["device"] != "cpu"]
    assert len(sampled.drop_duplicates(CELL)) == len(others)


def test_a_kernel_that_asks_for_too_much_shared_memory_is_not_launched(spoilt):
    body = (
        "__shared__ float much[12288]; much[threadIdx.x] = a[0]; __syncthreads(); c[0] = much[n];"
    )
    made, faulty, cells = spoilt("buffered_row-float32-exact", body, static_shared_bytes=2**20)
    allowed = made.provenance["devices"][0]["limits"]["max_shared_bytes_per_block_optin"]
    said = f"needs {2**20 + 256} bytes of shared memory per block, {allowed} allowed"
    assert set(faulty["status"]) == {"not_launchable"}
    assert set(faulty["reason"]) == {said}
    assert set(cells[cells["variant"] != "buffered_row"]["status"]) == {"passed"}


def test_a_kernel_that_needs_undeclared_shared_memory_fails_at_its_launch(spoilt):
    body = (
        "__shared__ float much[12288]; much[threadIdx.x] = a[0]; __syncthreads(); c[0] = much[n];"
    )
    _, faulty, cells = spoilt("buffered_row-float32-exact", body, static_shared_bytes=0)
    assert set(faulty["status"]) == {"failed"}
    assert set(cells[cells["variant"] != "buffered_row"]["status"]) == {"passed"}
