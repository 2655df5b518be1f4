"""``make bundle``: an archive with which to record on a host without a network.

The archive contains the source tree, the study's cubins for some architectures, and the Python
packages that the recorder needs. Once it is unpacked, ``./record`` measures that host. The host
needs the same Python version, gcc and, for GPUs, NVIDIA's driver.
"""

import gzip
import importlib.metadata
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from base.errors import StudyError
from base.files import atomic_writer
from base.paths import FOLDERS, ROOT
from base.version import git
from kernels.cubins.compile import build_all
from kernels.cubins.toolchain import find_nvcc
from study.config import load
from study.config_file import files
from study.plan import builds

# Packages of the recorder and of host execution; PyCUDA is added with cubins.
PACKAGES = ("numpy", "nvidia-ml-py", "pandas", "psutil", "pydantic", "pyyaml", "threadpoolctl")
FILES = ("CITATION.cff", "Snakefile", "Makefile", "pyproject.toml", "README.md", "LICENSE")
NAME = "gemm-study"
RECORD = """#!/bin/sh
# Measures this host into the folder `recording`. Options: `python -m workflow record --help`.
cd "$(dirname "$0")" || exit
for python in python{version} python3 python; do
  if "$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' 2>/dev/null
  then
    export PYTHONPATH="$PWD/packages"
    exec "$python" -m workflow record --config config.yaml --cubins cubins{commit} \\
      --out recording "$@"
  fi
done
echo "error: the bundle needs Python {version}; install it, or make another bundle" >&2
exit 2
"""


def write(architectures: Sequence[str], out: Path) -> None:
    """Write the archive `out`, with cubins for `architectures`; raise StudyError."""
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder), architectures)
        with (
            atomic_writer(out) as stream,
            gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(folder, NAME)
    print(f"bundle: {out} ({out.stat().st_size / 1e6:.0f} MB); unpack it and run {NAME}/record")


def pack(folder: Path, architectures: Sequence[str]) -> None:
    """Fill a folder with the content of the archive; raise StudyError."""
    folder.mkdir(exist_ok=True)
    for name in FOLDERS:
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for name in [*FILES, *files(ROOT / "config.yaml")]:
        shutil.copy(ROOT / name, folder)
    wanted = {*PACKAGES, *(["pycuda"] if architectures else [])}
    for distribution in with_dependencies(wanted):
        copy_package(distribution, folder / "packages")
    (folder / "cubins").mkdir()
    if architectures:
        config = load(ROOT / "config.yaml")
        nvcc = find_nvcc(config.toolchain.nvcc)
        for architecture in architectures:
            print(f"building for {architecture}", file=sys.stderr, flush=True)
            build_all(nvcc, builds(config.study), architecture, folder / "cubins")
    commit = git()
    if commit["dirty"]:
        print("warning: uncommitted changes; recordings will name no commit", file=sys.stderr)
    option = f" --commit {commit['commit']}" if commit["commit"] and not commit["dirty"] else ""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    script = folder / "record"
    script.write_text(RECORD.format(version=version, commit=option))
    script.chmod(0o755)


def with_dependencies(names: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """Yield the installed distributions with these names, and those that they require."""
    left, seen = sorted(names), {*names}
    while left:
        name = left.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise StudyError(f"{name}: is not installed here; run `make bundle`") from None
        yield distribution
        for text in distribution.requires or []:
            required = Requirement(text)
            name = canonicalize_name(required.name)
            is_wanted = required.marker is None or required.marker.evaluate({"extra": ""})
            if is_wanted and name not in seen:
                left.append(name)
                seen.add(name)


def copy_package(distribution: importlib.metadata.Distribution, folder: Path) -> None:
    """Copy the files of an installed distribution, except programs and bytecode."""
    for file in distribution.files or []:
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(str(file.locate())), target)
