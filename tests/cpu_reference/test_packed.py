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

from base.errors import StudyError
from cpu_reference.catalog import VARIANTS
from cpu_reference.library import OWN_FLAGS, Library, build_library, find_gcc
from kernels.products.gate import evaluate
from kernels.products.matrices import reference
from tests.support import ROOT
from tests.support.builds import cpu_library

pytestmark = pytest.mark.slow
KIB = 1 << 10
# L1, L2 and L3 in bytes: of real hosts, and implausible ones.
CACHES = {
    "Cascade Lake": (32 * KIB, 1024 * KIB, 22528 * KIB),
    "Sapphire Rapids": (48 * KIB, 2048 * KIB, 107520 * KIB),
    "Zen 5": (48 * KIB, 1024 * KIB, 32768 * KIB),
    "no L3": (32 * KIB, 512 * KIB, 0),
    "the least believed": (8 * KIB, 64 * KIB, 64 * KIB),
    "the wrong way round": (32768 * KIB, 1024 * KIB, 32 * KIB),
    **{f"all {size} bytes": (size, size, size) for size in (-1, 0, 1, 1 << 40)},
}
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
# Counts the parallel regions of products: n = 300 on one thread, n = 10 and 300 on two.
REGIONS = (ROOT / "tests/cpu_reference/packed_regions.c").read_text()


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


@pytest.mark.parametrize(
    "macro",
    ["__AVX512F__", *(pytest.param(m, marks=EXHAUSTIVE) for m in ("__AVX__", "NEITHER"))],
)
def test_blocks_are_sane_for_any_caches(tmp_path, macro):
    """For the tiles of all vector widths, including those that this machine lacks."""
    driver = compile_driver(tmp_path, BLOCKS, ["-O1", f"-D{macro}"])
    sizes = [1, 17, 255, 1024, 4096, 100000]
    for name, caches in CACHES.items():
        found, tile = run(driver, *map(str, (*caches, *sizes))).stdout.splitlines()
        rows, columns = map(int, tile.split())
        assert (rows, columns) == {"__AVX512F__": (12, 32), "__AVX__": (6, 16)}.get(macro, (6, 8))
        for blocks in json.loads(found):
            kc, nb, mc, nc = (blocks[key] for key in ("kc", "nb", "mc", "nc"))
            where = name, blocks
            assert 8 <= kc <= 384, where
            assert kc % 8 == mc % rows == nb % columns == nc % columns == 0, where
            assert min(nb, mc, nc) > 0, where
            # No larger than the matrix needs, and at most 256 MB.
            assert max(mc, nc) < blocks["n"] + max(rows, columns), where
            assert kc * (mc + nc) * 4 <= 256 << 20, where
            if name in ("Cascade Lake", "Sapphire Rapids", "Zen 5") and blocks["n"] >= 4096:
                l1, l2, l3 = caches
                assert l1 / 4 <= kc * rows * 4 <= l1 / 2 or kc >= 300, where
                assert l2 / 4 <= kc * nb * 4 <= l2, where
                assert kc * (mc + nc) * 4 <= l3 / 2, where


@pytest.mark.parametrize(
    "machine",
    [pytest.param(["-march=native"], id="native"), pytest.param([], id="plain", marks=EXHAUSTIVE)],
)
def test_no_variant_meets_a_sanitizer(tmp_path, machine):
    text = DRIVER if machine else DRIVER.replace("1000", "520").replace("1023", "519")
    done = run(compile_driver(tmp_path, text, SANITIZED + machine), check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


@EXHAUSTIVE
def test_the_sanitizers_find_faults(tmp_path):
    """A product whose C is one element short, and one that shifts beyond a word."""
    few = re.sub(r"(sizes\[\] = ){.*?}", r"\1{12, 33}", DRIVER)
    few = few.replace("n <= 400", "n <= 40").replace("1000, 0, 1", "100, 0, 1")
    few = few.replace("1023, 0, 2", "103, 0, 2")
    for old, new, complaint in [
        ("*const c = malloc(elements *", "*const c = malloc((elements - 1) *", "buffer-overflow"),
        ('puts("done")', 'puts(1 << wrong + 40 ? "done" : "")', "runtime error: shift"),
    ]:
        assert few.count(old) == 1
        done = run(compile_driver(tmp_path, few.replace(old, new), SANITIZED), check=False)
        assert done.returncode != 0
        assert complaint in done.stderr


@pytest.fixture(scope="module")
def library():
    return Library(cpu_library())


def random(n):
    rng = np.random.default_rng(n)
    return [rng.random((n, n), dtype=np.float32) * 2 - 1 for _ in range(2)]


@X86
@pytest.mark.parametrize("flags", [WIDE, NARROW], ids=["wide", "narrow"])
def test_tile_stays_in_registers(tmp_path, flags):
    out = tmp_path / "packed.s"
    source = ROOT / VARIANTS["packed"].source
    run(find_gcc(), *OWN_FLAGS, *flags, "-S", "-o", out, source)
    body = r"^micro_kernel:(.*?)^\t\.size\tmicro_kernel"
    kernel = re.search(body, out.read_text(), re.M | re.S)[1]
    registers = 24 if flags is WIDE else 12
    assert len(re.findall(r"vfmadd\d+ps", kernel)) == registers
    assert len(re.findall(r"vbroadcastss", kernel)) == registers / 2
    assert re.findall(r"%r[sb]p\).*%[yz]mm|%[yz]mm\d+, .*%r[sb]p", kernel) == []


@pytest.fixture(scope="module")
def narrower(tmp_path_factory):
    folders = (tmp_path_factory.mktemp("narrow") for _ in range(2))
    every = zip(folders, (NARROW, ["-O3"]), strict=True)
    return [Library(build_library(find_gcc(), folder, flags)) for folder, flags in every]


@EXHAUSTIVE
@X86
@pytest.mark.parametrize("n", [1, 3, 17, 100, 255, 700])
def test_narrower_vectors_multiply_too(library, narrower, n):
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


def test_one_thread_enters_no_parallel_region(tmp_path):
    driver = compile_driver(tmp_path, REGIONS, ["-O1"])
    assert run(driver).stdout.split() == ["0", "0", "1"]


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
def test_single_thread_is_single_threaded(library, value):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP", "GOMP"))}
    environment |= {} if value is None else {"OMP_NUM_THREADS": value}
    done = run(sys.executable, "-c", THREADS, library._library._name, env=environment)
    single, three = json.loads(done.stdout)
    for name, (started, elsewhere_s) in single.items():
        assert started == 0, name
        assert elsewhere_s < 0.01, name  # seconds of CPU that other threads took
    assert three[0] == 2


def test_blas_runs_on_the_threads_that_were_asked_for(library):
    a, b = random(64)
    for threads in (1, 2, 1):
        library.multiply("blas", a, b, np.empty_like(a), threads=threads)
        used = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
        assert set(used) == {threads}
    assert library.blas("blas").facts()["blas_version"]


def test_fewer_threads_than_asked_for_are_an_error(library):
    script = THREADS.partition("single =")[0] + "run('packed', 3)"
    limited = {"check": False, "env": os.environ | {"OMP_THREAD_LIMIT": "2"}}
    done = run(sys.executable, "-c", script, library._library._name, **limited)
    last = done.stderr.splitlines()[-1]
    assert f"{StudyError.__name__}: CPU variant packed: OpenMP started fewer than 3 threads" in last


@pytest.mark.parametrize("name", ["packed", "blas"])
@pytest.mark.parametrize("threads", [1, 2])
def test_concurrent_products_do_not_disturb_one_another(library, name, threads):
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
