"""The variant `packed`: its blocks, its threads, and all variants under sanitizers."""

import json
import os
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from cpu_reference.catalog import VARIANTS
from cpu_reference.library import OWN_FLAGS, Library, build_library, find_gcc
from kernels.products.gate import evaluate
from kernels.products.matrices import reference
from tests.support import ROOT
from tests.support.builds import cpu_library

pytestmark = pytest.mark.slow
KIB = 1 << 10
# L1 and L2 in bytes: of real hosts, and implausible ones.
CACHES = {
    "Cascade Lake": (32 * KIB, 1024 * KIB),
    "Emerald Rapids": (48 * KIB, 2048 * KIB),
    "Zen 5": (48 * KIB, 1024 * KIB),
    "the least believed": (8 * KIB, 64 * KIB),
    "the wrong way round": (32768 * KIB, 32 * KIB),
    **{f"all {size} bytes": (size, size) for size in (-1, 0, 1, 1 << 40)},
}
REAL = ("Cascade Lake", "Emerald Rapids", "Zen 5")
WIDE = ["-O3", "-mavx512f", "-mfma"]
NARROW = ["-O3", "-mavx2", "-mfma"]
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
EXHAUSTIVE = pytest.mark.exhaustive
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86")

BLOCKS = (ROOT / "tests/cpu_reference/packed_blocks.c").read_text()
# Runs every variant; the sanitizer guards the ends of the matrices. Blocks are those of this host,
# then those of tiny caches. The expected sums are computed in reverse order.
DRIVER = (ROOT / "tests/cpu_reference/all_variants.c").read_text()
DRIVER = DRIVER.replace(" 31, 32, 33, 64, 97, 100, 255, 256}", " 32, 33, 100, 255}")
SPLIT = (ROOT / "tests/cpu_reference/packed_split.c").read_text()


def run(*command, check=True, **options):
    options |= {"check": check, "cwd": ROOT}
    return subprocess.run(command, capture_output=True, text=True, **options)


def compile_driver(folder, text, flags):
    source = folder / "driver.c"
    source.write_text(text)
    others = [ROOT / v.source for v in VARIANTS.values() if v.source and v.name != "packed"]
    own = [flag for flag in OWN_FLAGS if flag not in ("-fPIC", "-shared")]
    command = [find_gcc(), *own, *flags, "-I", ROOT, "-o", folder / "driver", source, *others]
    run(*command, "-lm")
    return folder / "driver"


@X86
@pytest.mark.parametrize(
    ("flags", "tile"), [(["-mavx512f"], (12, 32)), (["-mavx"], (6, 16)), ([], (6, 8))]
)
def test_packed_chooses_valid_block_sizes_for_any_caches(tmp_path, flags, tile):
    driver = compile_driver(tmp_path, BLOCKS, ["-O0", *flags])
    for name, caches in CACHES.items():
        blocks = json.loads(run(driver, *map(str, caches)).stdout)
        kc, nb, rows, columns = (blocks[key] for key in ("kc", "nb", "rows", "columns"))
        where = name, blocks
        assert (rows, columns) == tile
        assert 8 <= kc <= 512, where
        assert kc % 8 == nb % columns == 0 < nb, where
        assert kc * nb * 4 <= 64 << 20, where
        if name in REAL:
            l1, l2 = caches
            assert l1 / 4 <= kc * rows * 4 <= l1 / 2 or kc >= 300, where
            assert l2 / 4 <= kc * nb * 4 <= l2, where


def test_the_threads_of_packed_cover_every_element_of_the_product_once(tmp_path):
    sizes = [1, 7, 16, 31, 64, 97, 100, 127, 128, 500, 1000, 1535, 2000, 3001]
    lines = run(compile_driver(tmp_path, SPLIT, ["-O2"]), *map(str, sizes)).stdout.splitlines()
    shared = [tuple(map(int, line.split())) for line in lines]
    assert {size for size, *_ in shared} == set(sizes)
    assert all(covered == 1 for *_, covered in shared)
    assert all(1 <= used <= threads for _, threads, used, _ in shared)
    used = {(size, threads): used for size, threads, used, _ in shared}
    assert used[16, 32] == 1
    assert used[500, 16] == used[3001, 16] == 16
    for size in sizes:  # more threads are never fewer
        counts = [used[size, threads] for threads in (1, 2, 4, 8, 16, 32)]
        assert counts == sorted(counts), size


@pytest.mark.parametrize(
    "machine",
    [pytest.param(["-march=native"], id="native"), pytest.param([], id="plain", marks=EXHAUSTIVE)],
)
def test_sanitizers_find_no_fault_in_any_cpu_variant(tmp_path, machine):
    text = DRIVER if machine else DRIVER.replace("1000", "520").replace("1023", "519")
    done = run(compile_driver(tmp_path, text, SANITIZED + machine), check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


@pytest.fixture(scope="module")
def library():
    return Library(cpu_library())


def random(n):
    rng = np.random.default_rng(n)
    return [rng.random((n, n), dtype=np.float32) * 2 - 1 for _ in range(2)]


@X86
@pytest.mark.parametrize("flags", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_compiled_inner_loop_of_packed_keeps_its_tile_in_registers(tmp_path, flags):
    out = tmp_path / "packed.s"
    source = ROOT / VARIANTS["packed"].source
    run(find_gcc(), *OWN_FLAGS, *flags, "-S", "-o", out, source)
    body = r"^micro_kernel_3_2:(.*?)^\t\.size\tmicro_kernel_3_2"
    kernel = re.search(body, out.read_text(), re.M | re.S)[1]
    loops = [part for part in re.split(r"^\.L\d+:", kernel, flags=re.M) if "vfmadd" in part]
    registers = 24 if flags is WIDE else 12
    for loop in loops:
        assert len(re.findall(r"vfmadd\d+ps", loop)) == registers
        assert len(re.findall(r"vbroadcastss", loop)) == registers / 2
        assert "%rsp" not in loop
        assert re.findall(r"%rbp\).*%[yz]mm|%[yz]mm\d+, .*%rbp", loop.partition("\tj")[0]) == []


@pytest.fixture(scope="module")
def narrower(tmp_path_factory):
    folders = (tmp_path_factory.mktemp("narrow") for _ in range(2))
    every = zip(folders, (NARROW, ["-O3"]), strict=True)
    return [Library(build_library(find_gcc(), folder, flags)) for folder, flags in every]


@EXHAUSTIVE
@X86
@pytest.mark.parametrize("n", [1, 3, 17, 100, 255, 700])
def test_packed_is_correct_if_compiled_for_narrower_vectors(library, narrower, n):
    """With FMAs the bits are equal, because each sum is taken in the order of k."""
    a, b = random(n)
    expected, bound = reference(a[None], b[None])
    products = []
    for each in narrower:
        c = np.full((1, n, n), np.nan, np.float32)
        each.multiply("packed", a, b, c[0])
        assert evaluate(c, expected, bound).passed
        products.append(c.tobytes())
    c = np.empty_like(a)
    library.multiply("packed", a, b, c)
    assert c.tobytes() == products[0]


THREADS = """
import json, os, sys, time
import numpy as np
from pathlib import Path
from cpu_reference.catalog import VARIANTS
from cpu_reference.library import Library
library = Library(Path(sys.argv[1]))
a = np.ones((300, 300), np.float32)
c = np.empty_like(a)
def others_s():
    return time.process_time() - time.thread_time()
def settled():  # the threads of the libraries are idle
    before_s = others_s()
    time.sleep(0.05)
    return others_s() - before_s < 1e-4
while not settled():
    pass
def run(name, threads):
    tasks = len(os.listdir("/proc/self/task"))
    begin_s = others_s()
    for _ in range(20 if name in ("packed", "blas") else 2):
        library.multiply(name, a, a, c, 64, threads)
    elsewhere_s = others_s() - begin_s
    assert (c == 300).all()
    return len(os.listdir("/proc/self/task")) - tasks, elsewhere_s
single = {name: run(name, 1) for name in VARIANTS if name not in ("mkl", "blis")}
print(json.dumps([single, run("packed", 3)]))
"""


@pytest.mark.parametrize(
    "value",
    [None, "4", *(pytest.param(v, marks=EXHAUSTIVE) for v in ("1", "0", "several", "2,2"))],
)
def test_packed_on_one_thread_starts_no_other_thread(library, value):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP", "GOMP"))}
    environment |= {} if value is None else {"OMP_NUM_THREADS": value}
    done = run(sys.executable, "-c", THREADS, library._library._name, env=environment)
    single, three = json.loads(done.stdout)
    for name, (started, elsewhere_s) in single.items():
        assert started == 0, name
        assert elsewhere_s < 0.01, name  # seconds of CPU that other threads took
    assert three[0] == 2


def test_a_blas_library_runs_on_the_requested_number_of_threads(library):
    a, b = random(64)
    for threads in (1, 2, 1):
        library.multiply("blas", a, b, np.empty_like(a), threads=threads)
        used = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
        assert set(used) == {threads}
    assert library.blas("blas").facts()["blas_version"]


def test_a_product_fails_with_an_error_if_a_thread_cannot_be_started(library):
    script = THREADS.partition("single =")[0]
    script += "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 20, -1))\n"
    script += "run('packed', 3)"
    failed = {"check": False, "env": os.environ}
    done = run(sys.executable, "-c", script, library._library._name, **failed)
    last = done.stderr.splitlines()[-1]
    assert "MemoryError: CPU variant packed: not enough memory for its buffer" in last


def test_a_forked_process_multiplies_with_its_own_threads(library):
    script = THREADS.partition("single =")[0]
    script += "run('packed', 2)\nif os.fork() == 0:\n    run('packed', 2), os._exit(3)\n"
    script += "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    assert run(sys.executable, "-c", script, library._library._name).stdout == "3\n"


@pytest.mark.parametrize("name", ["packed", "blas"])
@pytest.mark.parametrize("threads", [1, 2])
def test_concurrent_products_do_not_change_each_others_results(library, name, threads):
    """The buffer kept between calls is used by one call at a time."""
    matrices = [random(n) for n in (40, 255, 300, 41)]

    def multiply(pair):
        c = np.empty_like(pair[0])
        library.multiply(name, *pair, c, threads=threads)
        return c

    alone = [multiply(pair) for pair in matrices]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(multiply, matrices * 10))
    for number, c in enumerate(together):
        np.testing.assert_array_equal(c, alone[number % 4])
