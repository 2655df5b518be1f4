"""cuBLAS: search, calls, errors, and a product on a GPU."""

import ctypes
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.catalog.entries import VARIANTS
from kernels.products.elements import ELEMENTS, FLOAT
from measurement.devices import cublas
from measurement.devices.discovery import driver
from measurement.devices.errors import CellError, DeviceError
from tests.support.fake_cuda import STREAM, FakeCublas

SONAMES = tuple(f"libcublas.so.{major}" for major in (13, 12, 11))


@pytest.fixture
def library(monkeypatch):
    fake = FakeCublas()
    monkeypatch.setattr(cublas, "find_library", lambda: fake)
    return fake


def test_cublas_is_started_and_released_and_a_failed_product_is_a_device_error(library):
    gemm = cublas.Gemm(STREAM)
    started = [("cublasCreate_v2",), ("cublasSetStream_v2", STREAM), ("cublasSetMathMode", 2)]
    assert library.calls == started
    library.statuses = {"cublasSgemm_v2": 13}
    addresses = [int(library.cuda.mem_alloc(4)) for _ in range(3)]
    with pytest.raises(DeviceError, match=r"Sgemm_v2 returned CUBLAS_STATUS_EXECUTION_FAILED$"):
        gemm.multiply(cublas.PEDANTIC, *addresses, 1, 1, 1)
    assert ("cublasDestroy_v2",) not in library.calls
    gemm.close()
    assert library.calls[-1] == ("cublasDestroy_v2",)
    assert cublas.version() == "13.2.1"


def test_a_cublas_mode_is_set_only_if_it_changes_and_passes_the_operand_type(library):
    gemm = cublas.Gemm(STREAM)
    addresses = [int(library.cuda.mem_alloc(8)) for _ in range(3)]
    library.calls.clear()
    for name in ("pedantic FP32", "pedantic FP32", "TF32", "BF16", "FP16", "default FP32"):
        gemm.multiply(cublas.MODES[name], *addresses, 1, 1, 1)
    called = [(call[0], *(call[1:] if "Mode" in call[0] else ())) for call in library.calls]
    sgemm, gemm_ex = ("cublasSgemm_v2",), ("cublasGemmEx",)
    assert called[:4] == [sgemm, sgemm, ("cublasSetMathMode", 3), sgemm]
    default = ("cublasSetMathMode", 0)
    assert called[4:] == [default, gemm_ex, default, gemm_ex, default, sgemm]
    of_operands = [call[8] for call in library.calls if call[0] == "cublasGemmEx"]
    assert of_operands == [14, 2], "CUDA_R_16BF, CUDA_R_16F"


def test_if_cublas_does_not_start_only_its_cell_fails(library):
    for function, status, said, destroyed in (
        ("cublasCreate_v2", 1, "CUBLAS_STATUS_NOT_INITIALIZED", 0),
        ("cublasSetStream_v2", 3, "CUBLAS_STATUS_ALLOC_FAILED", 1),
        ("cublasSetMathMode", 99, "status 99", 1),
    ):
        library.calls.clear()
        library.statuses = {function: status}
        with pytest.raises(CellError) as refused:
            cublas.Gemm(STREAM)
        assert str(refused.value) == f"cuBLAS 13.2.1: {function} returned {said}"
        assert not isinstance(refused.value, DeviceError)
        assert library.calls.count(("cublasDestroy_v2",)) == destroyed


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host whose loader finds only `loads`; `asked` contains the names in order."""
    host = SimpleNamespace(loads=(), asked=())

    def load(name):
        host.asked = (*host.asked, name)
        if name not in host.loads:
            raise OSError(f"{name}: cannot open shared object file")
        return FakeCublas()

    def file(path):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
        return str(tmp_path / path)

    host.file = file
    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(cublas, "_TOOLKIT", tmp_path / "toolkit")
    monkeypatch.setattr(cublas.sys, "path", [str(tmp_path / "own"), str(tmp_path / "site")])
    cublas.find_library.cache_clear()
    yield host
    cublas.find_library.cache_clear()


def test_cublas_is_found_in_cuda_toolkits_and_in_wheels(host, monkeypatch, tmp_path):
    def found():
        cublas.find_library.cache_clear()
        return cublas.find_library() is not None

    for path in (
        *("toolkit/lib64/libcublas.so.12", "toolkit/targets/x86_64-linux/lib/libcublas.so.13"),
        *("site/nvidia/cu13/lib/libcublas.so.13", "site/nvidia/cublas/lib/libcublas.so.12"),
    ):
        host.asked, host.loads = (), (host.file(path),)
        assert found()
        assert host.asked == (*SONAMES, *host.loads)
        Path(*host.loads).unlink()
    broken = host.file("toolkit/lib64/libcublas.so.13")
    host.asked, host.loads = (), (host.file("site/nvidia/cu13/lib/libcublas.so.13"),)
    assert found(), "the next after one that does not load"
    assert host.asked[3:] == (broken, *host.loads)
    nvcc, library = Path(host.file("cuda-13/bin/nvcc")), host.file("cuda-13/lib64/libcublas.so.13")
    link = tmp_path / "nvcc"
    link.symlink_to(nvcc)
    host.loads = (library,)
    for program in (nvcc, link):
        monkeypatch.setattr(shutil, "which", {"nvcc": str(program)}.get)
        assert found(), "in the toolkit of nvcc"
        assert host.asked[-1] == library


# Least and largest error of a mode at k = 1024, in units of 2⁻²⁴·Σ|a||b|; measured on an H100:
# FP32 about 5, TF32 505, BF16 4000.
UNITS = {"cublas_sgemm": (0.5, 40), "cublas_default": (0.5, 40), "cublas_tf32": (60, 5_000)}
UNITS |= {"cublas_fp16": (60, 5_000), "cublas_bf16": (600, 40_000)}


@pytest.mark.gpu
@pytest.mark.parametrize("variant", UNITS)
@pytest.mark.parametrize(("m", "n", "k"), [(37, 53, 65), (1, 300, 7), (512, 256, 1024)])
def test_a_product_by_cublas_has_the_error_of_its_mode(card, variant, m, n, k):
    if cublas.find_library() is None:
        pytest.skip("no cuBLAS on this host")
    entry = VARIANTS[variant]
    if entry.tensor_cores and float(card.compute_capability) < 8:
        pytest.skip("no tensor cores for this mode")
    assert re.fullmatch(r"1\d\.\d+\.\d+", cublas.version())
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    form = ELEMENTS[entry.dtypes[0]].rounded or FLOAT
    given = [form.encoded(matrix) for matrix in (a, b)]
    c = np.ones(m * n + 100, np.float32)  # ones behind the product must be unchanged
    cuda = driver()
    context = cuda.Device(card.index).make_context()
    try:
        stream = cuda.Stream()
        gemm = cublas.Gemm(stream.handle)
        buffers = [cuda.mem_alloc(matrix.nbytes) for matrix in (*given, c)]
        for buffer, matrix in zip(buffers, (*given, c), strict=True):
            cuda.memcpy_htod(buffer, matrix)
        cuda.memset_d32(buffers[2], 0x7FC00000, m * n)  # NaN, which must not be read
        gemm.multiply(cublas.MODES[entry.mode], *map(int, buffers), m, n, k)
        stream.synchronize()
        cuda.memcpy_dtoh(c, buffers[2])
        gemm.close()
        del stream, buffers, buffer
    finally:
        context.pop()
        context.detach()
    exact = a.astype(float) @ b.astype(float)
    units = abs(c[: m * n].reshape(m, n) - exact) * 2.0**24
    units /= abs(a).astype(float) @ abs(b).astype(float)
    assert (units <= entry.roundoffs(k)).all()
    assert (c[m * n :] == 1).all()
    if k == 1024:  # another mode has other errors
        assert UNITS[variant][0] < units.max() < UNITS[variant][1]
