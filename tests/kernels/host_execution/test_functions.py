"""CUDA's functions on numbers: all of functions.txt compile, and families have their values."""

import ctypes
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from kernels.host_execution.compiler import build_kernel

LISTED = [
    line.split("|") for line in Path(__file__).with_name("functions.txt").read_text().splitlines()
]
NUMBERS = {"float": ctypes.c_float, "double": ctypes.c_double, "int": ctypes.c_int}
NUMBERS |= {"unsigned int": ctypes.c_uint, "long int": ctypes.c_long, "bool": ctypes.c_bool}
NUMBERS |= {"long long int": ctypes.c_longlong, "unsigned long int": ctypes.c_ulong}
NUMBERS |= {"unsigned long long int": ctypes.c_ulonglong}


def _wrapper(number, result, name, parameters):
    """Return a C function that calls one function on `parameters`, of which pointers are locals."""
    plain = [f"{kind} a{at}" for at, kind in enumerate(parameters) if "*" not in kind]
    local = [
        f"{kind.replace('*', '')} a{at}[4] = {{}};"
        for at, kind in enumerate(parameters)
        if "*" in kind
    ]
    call = f"{name}({', '.join(f'a{at}' for at in range(len(parameters)))})"
    body = f"{call}; return 0;" if result == "void" else f"return {call};"
    kind = "int" if result == "void" else result
    return f'extern "C" {kind} f{number}({", ".join(plain)}) {{ {" ".join(local)} {body} }}'


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("functions")
    lines = [_wrapper(at, result, name, kinds) for at, (result, name, *kinds) in enumerate(LISTED)]
    source = folder / "kernel.cu"
    text = "\n".join([*lines, 'extern "C" __global__ void kernel(float *p) { p[0] = 1; }'])
    source.write_text(text)
    return ctypes.CDLL(str(build_kernel("kernel", source, {}, "separate", folder / "builds")))


def functions(library, pattern):
    """Yield name, result type, parameter types and the function, of those whose name matches."""
    for at, (result, name, *kinds) in enumerate(LISTED):
        known = result in NUMBERS and all(kind in NUMBERS for kind in kinds)
        if re.fullmatch(pattern, name) and known:
            function = library[f"f{at}"]
            function.restype = NUMBERS[result]
            function.argtypes = [NUMBERS[kind] for kind in kinds]
            yield name, result, kinds, function


@pytest.mark.exhaustive
def test_every_listed_device_function_of_cuda_compiles_on_the_host(library):
    assert len(LISTED) >= 550
    names = {name for _, name, *_ in LISTED}
    assert {"__popc", "__dp4a", "isnan", "rsqrtf", "__fdividef", "__vadd4", "__ddiv_ru"} <= names
    assert all(library[f"f{at}"] for at in range(len(LISTED)))


def _values(kind, rng, count):
    bits = rng.integers(0, 2**64, count, dtype=np.uint64)
    if kind in ("float", "double"):
        scale = 2.0 ** rng.integers(-20, 20, count)
        return (rng.uniform(-1, 1, count) * scale).astype(np.dtype(NUMBERS[kind])).tolist()
    return [NUMBERS[kind](int(value)).value for value in bits]


def _neighbours(kind, value):
    """Return the numbers of a type at and around an exact value: below, above."""
    real = np.float32 if kind == "float" else np.float64
    near = real(float(value))
    below = near if Fraction(float(near)) <= value else np.nextafter(near, real(-np.inf))
    above = near if Fraction(float(near)) >= value else np.nextafter(near, real(np.inf))
    return float(below), float(above)


EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x,
    "ma": lambda x, y, z: x * y + z,
    "maf": lambda x, y, z: x * y + z,
    "2float": lambda x: x,
    "2double": lambda x: x,
}


def test_directed_rounding_and_conversions_to_floating_point_are_exact(library):
    rng, tested = np.random.default_rng(1), 0
    pattern = r"__(?:[fd](?:add|sub|mul|div|rcp|maf?)|\w+2float|\w+2double)_r[dunz]"
    for name, result, kinds, function in functions(library, pattern):
        of = next(value for key, value in EXACT.items() if re.search(rf"{key}_r", name))
        for arguments in zip(*(_values(kind, rng, 20) for kind in kinds), strict=True):
            exact = of(*map(Fraction, arguments))
            below, above = _neighbours(result, exact)
            zero = below if exact > 0 else above
            expected = {"d": {below}, "u": {above}, "z": {zero}, "n": {below, above}}[name[-1]]
            found = function(*arguments)
            assert found in expected, (name, arguments)
            if name[-1] == "n":
                distance = abs(Fraction(found) - exact)
                assert distance <= min(abs(Fraction(each) - exact) for each in expected)
        tested += 1
    assert tested >= 70


WHOLE = {"d": math.floor, "u": math.ceil, "z": math.trunc, "n": round}


def test_conversions_to_integers_round_as_named_and_saturate(library):
    rng, tested = np.random.default_rng(2), 0
    for name, result, kinds, function in functions(library, r"__(float|double)2u?(int|ll)_r[dunz]"):
        bits = 64 if "ll" in name else 32
        least = 0 if result.startswith("u") else -(2 ** (bits - 1))
        most = 2**bits - 1 + least
        for value in [*_values(kinds[0], rng, 20), 0.5, 1.5, -2.5, 3e9, -3e9, 1e30, -1e30]:
            expected = min(max(WHOLE[name[-1]](value), least), most)
            assert function(value) == expected, (name, value)
        invalid = 2 ** (bits - 1) if bits == 64 or "double" in name else 0
        assert function(math.nan) % 2**bits == invalid
        tested += 1
    assert tested == 32


def _lanes(word, width, signed):
    lanes = [word >> at & (2**width - 1) for at in range(0, 32, width)]
    return [lane - 2**width if signed and lane >> (width - 1) else lane for lane in lanes]


def _limited(value, width, signed):
    most = 2 ** (width - signed) - 1
    return max(min(value, most), -most - 1 if signed else 0)


OF_LANES = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "absdiff": lambda a, b: abs(a - b),
    "max": max,
    "min": min,
    "hadd": lambda a, b: (a + b) >> 1,
    "avg": lambda a, b: (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1,
    **{
        f"{kind}{name}": (lambda a, b, holds=holds, yes=yes: yes if holds(a, b) else 0)
        for kind, yes in (("cmp", -1), ("set", 1))
        for name, holds in {
            "eq": lambda a, b: a == b,
            "ne": lambda a, b: a != b,
            "ge": lambda a, b: a >= b,
            "gt": lambda a, b: a > b,
            "le": lambda a, b: a <= b,
            "lt": lambda a, b: a < b,
        }.items()
    },
}


def test_simd_functions_on_packed_integers_equal_python(library):
    rng, tested = np.random.default_rng(3), 0
    for name, _, kinds, function in functions(library, r"__v[a-z]+[24]"):
        width = 32 // int(name[-1])
        stem = name[3:-1]
        operation = max((key for key in OF_LANES if stem.startswith(key)), key=len, default="")
        if stem.startswith("sad"):
            operation = "absdiff"
        rest = stem.removeprefix("sad").removeprefix(operation)
        signed = rest in ("s", "ss") or operation in ("neg", "abs")
        for a, b in np.reshape(_values("unsigned int", rng, 80), (40, 2)).tolist():
            pairs = zip(_lanes(a, width, signed), _lanes(b, width, signed), strict=True)
            results = [OF_LANES[operation](*pair) for pair in pairs]
            if stem.startswith("sad"):
                expected = sum(results)
            else:
                if len(rest) == 2:  # saturated
                    results = [_limited(each, width, signed) for each in results]
                expected = sum((each % 2**width) << at * width for at, each in enumerate(results))
            assert function(*(a, b)[: len(kinds)]) == expected, (name, hex(a), hex(b))
        tested += 1
    assert tested >= 80


BITS = {
    "__popc(ll)?": lambda x, bits: (x % 2**bits).bit_count(),
    "__clz(ll)?": lambda x, bits: bits - (x % 2**bits).bit_length(),
    "__ffs(ll)?": lambda x, bits: (x & -x).bit_length(),
    "__brev(ll)?": lambda x, bits: int(f"{x:0{bits}b}"[::-1], 2),
}
TWO = {
    "__u?mulhi": lambda x, y: x * y >> 32,
    "__u?mul64hi": lambda x, y: x * y >> 64,
    "__u?hadd": lambda x, y: (x + y) >> 1,
    "__u?rhadd": lambda x, y: (x + y + 1) >> 1,
    "__umul24": lambda x, y: (x % 2**24) * (y % 2**24) % 2**32,
    "u?l?l?min|min": min,
    "u?l?l?max|max": max,
}


def test_integer_functions_equal_python(library):
    rng = np.random.default_rng(4)
    for pattern, of in BITS.items():
        for name, _, kinds, function in functions(library, pattern):
            for value in [0, 1, *_values(kinds[0], rng, 20)]:
                assert function(value) == of(value, 64 if "ll" in name else 32), (name, value)
    for pattern, of in TWO.items():
        for name, result, kinds, function in functions(library, pattern):
            if result in ("float", "double") or len(set(kinds)) > 1:
                continue
            for pair in zip(*(_values(kind, rng, 20) for kind in kinds), strict=True):
                assert function(*pair) == of(*pair), (name, pair)


def test_mathematical_functions_equal_those_of_python_and_scipy(library):
    special = pytest.importorskip("scipy.special")
    known = {
        "rsqrt": lambda x: 1 / np.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x),
        "sinpi": special.sindg, "normcdf": special.ndtr, "normcdfinv": special.ndtri,
        "erfinv": special.erfinv, "erfcinv": special.erfcinv, "erfcx": special.erfcx,
        "cyl_bessel_i0": special.i0, "cyl_bessel_i1": special.i1, "j0": special.j0,
        "y1": special.y1, "exp10": special.exp10, "tgamma": special.gamma, "cbrt": np.cbrt,
    }  # fmt: skip
    known |= {name: getattr(np, name) for name in ("sin", "exp", "log", "tanh", "trunc", "rint")}
    known["sinpi"] = lambda x: special.sindg(180 * x)
    for name, of in known.items():
        found = list(functions(library, f"{name}f?"))
        assert found, name
        for _, result, kinds, function in found:
            if kinds not in (["float"], ["double"]):
                continue
            for x in (1e-3, 0.11, 0.5, 0.77, 0.999):
                x = float(np.float32(x)) if kinds == ["float"] else x
                near = 2e-6 if result == "float" else 1e-13
                assert function(x) == pytest.approx(float(of(x)), rel=near), (name, kinds, x)
