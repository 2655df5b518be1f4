"""Compiling kernels and their runtime with g++, once per digest of all inputs."""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Literal, get_args

from base.errors import StudyError
from base.paths import RESULTS, ROOT, program, shown
from kernels.host_execution.ptx import closing, split, translated

Mode = Literal["counted", "separate", "fused", "large", "launch"]
MODES: tuple[Mode, ...] = get_args(Mode)[:3]  # the modes in which a product is checked
HERE = Path(__file__).resolve().parent
BUILDS = RESULTS / "host_execution"

# Some distributions protect stacks by default, with a function of the C library.
_COMMON = ["-std=c++17", "-fPIC", "-pipe", "-fmax-errors=1", "-fno-stack-protector"]
# The stack of a fiber is only slightly larger than this frame.
# Shared memory of a template belongs to one library, also if a process loads several.
_KERNEL = [
    "-fno-gnu-unique",
    "-fno-extern-tls-init",
    "-fno-exceptions",
    "-fno-strict-aliasing",  # kernels read registers as vectors of other types
    "-fno-threadsafe-statics",
    "-fno-ipa-reference-addressable",  # g++ must not assume that memory without stores is zero
    "-Werror=frame-larger-than=32768",
    # What follows a function without a value is undefined: nvcc and g++ differ.
    "-Werror=return-type",
    "-Werror=uninitialized",
    "-Wno-maybe-uninitialized",
]
# The headers of entry.cpp. Parsed once, they halve the time of a build, but that takes the time of
# two builds: it is done in folders with several kernels.
_HEADERS, _SEVERAL = ("copies.h", "cuda.h", "ptx.h"), 4
_RUNTIME_SOURCES = ("runtime.cpp", "accesses.cpp", "numbers.cpp", "tensor.cpp")
_RUNTIME = ["-O3", "-ffp-contract=off"]  # with -O2, counted runs would take a tenth more time
_MODE_FLAGS: dict[Mode, list[str]] = {
    # No -O1, which would split vectors and merge accesses.
    "counted": [
        "-O0",
        "-gdwarf-4",
        "-ffp-contract=off",
        "-ftrivial-auto-var-init=pattern",
        "-fsanitize=thread",
        "-fsanitize=bounds",
        "--param",
        "tsan-instrument-func-entry-exit=0",
        "-fsanitize-coverage=trace-pc",
    ],
    # No -O2, which would take a quarter longer to compile.
    "separate": ["-O1", "-ffp-contract=off"],
    # Products are fused among the expensive optimizations. Without the parameter, GCC 13 and later
    # do not fuse chains of sums.
    "fused": [
        "-O1",
        "-fexpensive-optimizations",
        "-mfma",
        "-ffp-contract=fast",
        "--param=avoid-fma-max-bits=0",
    ],
    "large": [
        "-O2",
        "-gdwarf-4",
        "-fsanitize=thread",
        "-fsanitize=signed-integer-overflow",
        "--param",
        "tsan-instrument-func-entry-exit=0",
    ],
    "launch": ["-O0"],
}

_SEVERAL_FILES, _PTX = "a kernel in more than one file", "this inline PTX"
# Features without a counterpart on the host, by pattern.
_UNSUPPORTED = {
    r"\b__(?:shfl|ballot|any|all)(?!\w*_sync\b)(?:_\w+)?\b\s*\(": "warp functions without a mask",
    r"\b(?:this_cluster|cluster_group|this_multi_grid)\b": "clusters and several grids",
    r"\batomic(?:Inc|Dec|\w+_(?:block|system))\b": "these atomics",
    r"\bexperimental\b": "experimental tensor operations",
    r"\b__managed__": "managed memory",
    r"\b(?:tex[123]D\w*|surf[123]D\w*|cudaTextureObject_t)\b": "textures",
    r"\bcuda::(?!(?:barrier|pipeline|memcpy_async|make_pipeline|thread_scope|aligned_size_t)\b|"
    r"(?:pipeline|thread_scope)_\w+)\w+|\b__cp_async\w*\b": "the CUDA C++ library",
    r"\b(?:clock|clock64|__nanosleep)\s*\(": "services of the device",
    r"<<<": "launches from the device",
    r"\b(?:asm|__asm|__asm__)\b": _PTX,  # an asm statement that was not translated
    r'^# \d+ "(?!<)[^"]*" 1\b[^\n]*': _SEVERAL_FILES,  # the preprocessor's mark of an include
}
# Headers that nvcc includes by itself, and headers whose functions `cuda.h` declares.
_INCLUDED = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:"
    r"cuda(?:_runtime(?:_api)?|_pipeline(?:_primitives)?|_fp16|_bf16)?\.h(?:pp)?|mma\.h|"
    r"cooperative_groups(?:/\w+)?\.h|cuda/(?:barrier|pipeline)|"
    r"(?:device_launch_parameters|vector_types|vector_functions)\.h|"
    r"c?(?:assert|float|limits|math|stddef|stdint|stdio|stdlib|string)(?:\.h)?)[>\"][^\n]*",
    re.MULTILINE,
)
_DYNAMIC_SHARED = re.compile(r"\bextern\s+__shared__\b[^;]*?(\w+)\s*\[\s*\]")
SOURCE_NAME = "kernel.cu"  # of the copy that g++ compiles: a user's name may be any text
# What nvcc defines, and values of __CUDA_ARCH__; the host runs the code for the first one.
_NVCC = re.compile(r"\b(?:__CUDA_ARCH__|__CUDACC__|__NVCC__)\b")
_OF_NVCC = ("-D__CUDACC__", "-D__NVCC__")
_ARCHITECTURES = (900, 750, 800, 890, 1000, 1200)


@dataclass(frozen=True)
class LaunchCode:
    """A file's code for the device, with its line numbers, and the function that launches it."""

    device: str
    configure: str


class NotSupported(StudyError):  # noqa: N818  the field's word
    """An error: a kernel has a feature that the host cannot execute."""


class CompilerError(StudyError):
    """An error that g++ found in a kernel; nvcc may accept the same kernel."""


def unsupported(text: str, macros: Sequence[str] = ()) -> tuple[int, str, str] | None:
    """Return the first feature that the host cannot execute: its line, word and name.

    `macros` are compiler options that define macros. Code that these exclude is ignored.
    """
    source = preprocessed(text, *macros)
    if missing := re.search(
        r":(\d+):.*error: (.*: No such file.*|no include path.*)", source.errors
    ):
        return int(missing[1]), missing[2], _SEVERAL_FILES
    code, untranslated = source.translated
    refused = [(source.code.count("\n", 0, at), name, _PTX) for at, name in untranslated]
    refused += [
        (code.count("\n", 0, match.start()), match[0].rstrip("( "), feature)
        for pattern, feature in _UNSUPPORTED.items()
        for match in re.finditer(pattern, code, re.MULTILINE)
    ]
    if not refused:
        return None
    index, word, feature = min(refused, key=itemgetter(0))
    return _numbered(code)[index][1], word, feature


def _of_nvcc(text: str, macros: Sequence[str]) -> list[str]:
    """Return options with nvcc's macros if the host can execute the GPU code they select."""
    if not _NVCC.search(text):
        return []
    of_nvcc = [*_OF_NVCC, f"-D__CUDA_ARCH__={_ARCHITECTURES[0]}"]
    chosen = [*macros, *of_nvcc]
    is_possible = not unsupported(text, chosen) and not preprocessed(text, *chosen).errors
    return of_nvcc if is_possible else []


def unchecked_lines(text: str, defines: Mapping[str, int | str]) -> list[int]:
    """Return the lines of a source that nvcc compiles for some GPU but the host does not run."""
    if not _NVCC.search(text):
        return []
    own = [f"-D{key}={value}" for key, value in defines.items()]
    gpus = [[*_OF_NVCC, f"-D__CUDA_ARCH__={number}"] for number in _ARCHITECTURES]
    compiled = set[tuple[str, int]]().union(*(_compiled_lines(text, [*own, *gpu]) for gpu in gpus))
    unchecked = compiled - _compiled_lines(text, [*own, *_of_nvcc(text, own)])
    return sorted({number for _, number in unchecked})


@dataclass(frozen=True)
class Preprocessed:
    """A source after macro expansion, with comments that state the original lines.

    `macros` are its directives that define macros, `errors` the preprocessor's error messages.
    """

    code: str
    macros: str
    errors: str

    @cached_property
    def translated(self) -> tuple[str, list[tuple[int, str]]]:
        """The code with inline PTX translated, and the statements that stay (`ptx.translated`)."""
        return translated(self.code)


@lru_cache(maxsize=64)
def preprocessed(text: str, *macros: str) -> Preprocessed:
    """Expand the macros of a source; the options `macros` define more of them."""
    command = [str(find_gxx()), *macros, "-E", "-dD", "-nostdinc", "-x", "c++", "-"]
    source = _INCLUDED.sub("", text)
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    _, first, rest = done.stdout.partition('# 1 "<stdin>"\n')  # before it are g++'s own
    directive = re.compile(r"^#(?:define|undef) .*$", re.MULTILINE)
    errors = done.stderr if done.returncode else ""
    return Preprocessed(
        first + directive.sub("", rest),
        "\n".join(directive.findall(rest)),
        errors.replace("<stdin>", SOURCE_NAME),
    )


def _numbered(code: str) -> list[tuple[str, int]]:
    """Return for each line of preprocessed code its file, and its line number in that file."""
    file, number, lines = "", 0, []
    for line in code.splitlines():
        number += 1
        if marker := re.match(r'# (\d+) "([^"]*)"', line):
            file, number = marker[2], int(marker[1]) - 1
        lines.append((file, number))
    return lines


def _compiled_lines(text: str, macros: Sequence[str]) -> set[tuple[str, int]]:
    """Return the lines, as file and number, that remain after preprocessing."""
    code = preprocessed(text, *macros).code
    lines = zip(_numbered(code), code.splitlines(), strict=True)
    return {at for at, line in lines if line.strip() and not line.startswith("# ")}


@cache
def find_gxx() -> Path:
    """Return the g++ on PATH; raise StudyError if there is none."""
    return program("g++", "it (Debian, Ubuntu: apt install g++)")


@cache
def compiler_version() -> str:
    """Return the output of g++ --version; raise StudyError if there is no g++."""
    command = [str(find_gxx()), "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def build_runtime(folder: Path = BUILDS) -> Path:
    """Compile the runtime to `folder` if it is missing; return its path. Raise StudyError."""
    texts = {path.name: path.read_bytes() for path in (*HERE.glob("*.cpp"), *HERE.glob("*.h"))}
    sources = [HERE / name for name in _RUNTIME_SOURCES]
    try:
        return _build("runtime", sources, [*_COMMON, *_RUNTIME], ["-lm"], texts, folder)
    except _GxxError as error:
        raise StudyError(_complaint("runtime", str(error), sources[0])) from None


def build_kernel(
    name: str,
    source: Path,
    defines: Mapping[str, int | str],
    mode: Mode,
    folder: Path = BUILDS,
    launch: LaunchCode | None = None,
) -> Path:
    """Compile the kernel `name` of a file to `folder` if it is missing; return its path.

    `defines` are macros and their values: numbers, or words such as the type ``double``. With a
    `launch`, its code replaces the file's. Raise NotSupported for features that the host cannot
    execute, and StudyError with the compiler's first error.
    """
    text = launch.device if launch else source.read_text()
    if name.startswith("host_"):
        raise NotSupported(f"{shown(source)}: {name}: is a name of host execution; rename it")
    macros = [f"-D{key}={value}" for key, value in defines.items()]
    of_nvcc = _of_nvcc(text, macros)
    if refused := unsupported(text, [*macros, *of_nvcc]):
        line, word, feature = refused
        raise NotSupported(
            f"{shown(source)}:{line}: {word}: host execution does not support {feature}; remove "
            "it, or run the kernel on a GPU only"
        )
    whole = preprocessed(text, *macros, *of_nvcc)
    if whole.errors:
        raise CompilerError(_complaint(name, whole.errors, source))
    code = re.sub(r'^(# \d+) "<stdin>"', rf'\1 "{SOURCE_NAME}"', whole.translated[0], flags=re.M)
    runtime = build_runtime(folder)
    flags = [*_COMMON, *_KERNEL, *_MODE_FLAGS[mode]]
    compiling = [
        *flags,
        *macros,
        *of_nvcc,
        *(['-DHOST_CONFIGURE="configure.h"'] if launch else [f"-DKERNEL={name}"]),
        f"-DHOST_LAUNCH_BOUNDS={_launch_bounds(name, code)}",
        *(f"-D{array}=smem" for array in {*_DYNAMIC_SHARED.findall(code)} - {"smem"}),
        f'-DSOURCE="{SOURCE_NAME}"',
    ]
    # A kernel's library finds the runtime in its folder. The runtime replaces the sanitizer's.
    linking = [
        "-Wl,--no-as-needed",
        f"-l:{runtime.name}",
        "-Wl,--as-needed",  # linking the C++ library takes longer than compiling
        "-Wl,-rpath,$ORIGIN",
        "-Wl,-Bsymbolic",  # a kernel may have the name of a function of the C library
        # A kernel has no operating system: it gets only the C functions that g++ itself calls.
        "-nodefaultlibs",
        "-lm",
        "/lib64/ld-linux-x86-64.so.2",  # defines __tls_get_addr; the path is fixed by the ABI
        *(f"-Wl,--wrap={name}" for name in ("memcpy", "memmove", "memset")),
    ]
    stem = "-".join([name, *(f"{key}{value}".lower() for key, value in defines.items()), mode])
    entry = HERE / "entry.cpp"
    texts = {SOURCE_NAME: f"{code}\n{whole.macros}\n".encode()}
    texts |= {"configure.h": launch.configure.encode()} if launch else {}
    try:
        headers = _parsed_headers(mode, flags, folder)
        return _build(stem, [entry], compiling, linking, texts, folder, headers)
    except _GxxError as error:
        missing = re.search(rf"{SOURCE_NAME}:(\d+): undefined reference to `([\w ]+)", str(error))
        if missing:
            raise NotSupported(
                f"{shown(source)}:{missing[1]}: {missing[2]}: host execution has no such function"
            ) from None
        raise CompilerError(_complaint(name, str(error), source)) from None


def _parsed_headers(mode: Mode, flags: list[str], folder: Path) -> Path | None:
    """Return a precompiled header with all `_HEADERS`; None in a folder with few kernels."""
    text = "".join(f'#include "{HERE / name}"\n' for name in _HEADERS)
    texts = {path.name: path.read_bytes() for path in HERE.glob("*.h")}
    header = folder / f"headers-{mode}-{_digest([*flags, text], texts)}" / "headers.h"
    if not header.parent.exists() and len([*folder.glob(f"*-{mode}-*.so")]) >= _SEVERAL:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            whole = Path(temporary) / "whole" / header.name
            whole.parent.mkdir()
            whole.write_text(text)
            with suppress(_GxxError, OSError):  # another process was first
                _run([find_gxx(), *flags, "-x", "c++-header", whole, "-o", f"{whole}.gch"])
                os.replace(whole.parent, header.parent)
    return header if header.parent.exists() else None


def _launch_bounds(name: str, code: str) -> str:
    """Return the first argument of ``__launch_bounds__``; "0" without, and for a template."""
    call = re.search(rf"\b{re.escape(name)}\s*\(", code)
    head = re.split(r"[;{}]", code[: call.start()])[-1] if call else ""
    bounds = re.search(r"__launch_bounds__\s*\(", head)
    if not bounds or re.search(r"\btemplate\s*<", head):
        return "0"
    inside = head[bounds.end() : closing(head, bounds.end()) - 1]
    return " ".join(split(inside, ",")[0].split())


# Undefined weak symbols that every library built by g++ has.
_WEAK = {"__gmon_start__", "__cxa_finalize"}
_WEAK |= {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"}


def _digest(options: list[str], texts: Mapping[str, bytes]) -> str:
    """Return a digest of the compiler, of its options, and of files given by name."""
    digest = hashlib.sha256("\0".join([compiler_version(), *options]).encode())
    for name, text in sorted(texts.items()):
        digest.update(name.encode() + b"\0" + text + b"\0")
    return digest.hexdigest()[:16]


class _GxxError(Exception):
    """g++ failed; the message is its output."""


def _build(
    name: str,
    sources: Sequence[Path],
    compiling: list[str],
    linking: list[str],
    texts: Mapping[str, bytes],
    folder: Path,
    headers: Path | None = None,
) -> Path:
    """Compile and link a library, with a digest of all inputs in its name.

    `headers` are precompiled headers of the sources, which only save time.
    """
    out = folder / f"{name}-{_digest([*compiling, *linking], texts)}.so"
    if out.exists():
        return out
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        whole = Path(temporary) / "whole.so"
        for key, text in texts.items():
            whole.with_name(key).write_bytes(text)
        # The folder does not affect the digest, because the name of the runtime contains its own.
        linked = [f"-L{folder}", *linking, "-Wl,--no-undefined", f"-Wl,-soname,{out.name}"]
        inputs = [f"-I{temporary}", "-shared", *map(str, sources)]
        _compile([find_gxx(), *compiling, *inputs, *linked, "-o", whole], headers)
        if strange := _weak_symbols(whole) - _WEAK:
            raise _GxxError(f"error: {min(strange)}: undefined weak symbols are refused; define it")
        os.replace(whole, out)
    return out


def _weak_symbols(library: Path) -> set[str]:
    """Return the undefined weak symbols, to which any function of this process might be bound."""
    command = [str(program("nm", "binutils")), "--dynamic", "--undefined-only", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _GxxError(done.stderr)
    words = (line.split() for line in done.stdout.splitlines())
    return {name.partition("@")[0] for kind, name in words if kind in "vwVW"}


def _compile(command: Sequence[Path | str], headers: Path | None) -> None:
    """Compile with precompiled headers; again without them if that fails."""
    if headers:
        with suppress(_GxxError):
            _run([*command, "-include", headers])
            return
    _run(command)


def _run(command: Sequence[Path | str]) -> None:
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as folder:  # g++ itself leaves files
        to = os.environ | {"TMPDIR": folder}  # g++ would leave files after Ctrl-C
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=to)
    if done.returncode != 0:
        raise _GxxError(done.stderr)


def _complaint(name: str, output: str, source: Path) -> str:
    """Return g++'s first error as one line, with file and line if g++ printed them."""
    if found := re.search(r"^(\S.*?):(\d+):\d+: (?:fatal )?error: (.*)$", output, re.MULTILINE):
        file = source if Path(found[1]).name == SOURCE_NAME else Path(found[1])
        return f"{shown(file)}:{found[2]}: {found[3]} (g++)"
    said = output.splitlines()
    lines = [line for line in said if re.search("error|undefined reference", line)] or said
    told = lines[0].replace(f"{ROOT}{os.sep}", "") if lines else "without a message"
    return f"{name}: g++ failed: {told}"
