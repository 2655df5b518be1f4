"""Pack what records on a host without a network: what ``make bundle`` runs.

    python workflow/bundle.py [--architecture sm_90 …] [--out results/bundle.tar.gz]

The archive holds this tree, the study's cubins for the architectures, and the packages that the
recorder needs, as they lie in this environment: locked by hash. Unpacked, ``./record`` measures
that host; it needs the same Python as this, gcc and, for GPUs, NVIDIA's driver.
"""

import argparse
import gzip
import importlib.metadata
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from packaging.requirements import Requirement  # noqa: E402
from packaging.utils import canonicalize_name  # noqa: E402

from base.errors import StudyError, exit_status  # noqa: E402
from base.files import atomic_writer  # noqa: E402
from kernels.cubins.compile import build_all  # noqa: E402
from kernels.cubins.toolchain import find_nvcc  # noqa: E402
from measurement.recorder.provenance import git  # noqa: E402
from study.config import load  # noqa: E402
from study.plan import builds  # noqa: E402

# What the recorder imports, and what host execution does; PyCUDA where there are cubins.
PACKAGES = ("numpy", "nvidia-ml-py", "pandas", "psutil", "pydantic", "pyyaml", "threadpoolctl")
TREE = (
    "analysis",
    "base",
    "cpu_reference",
    "kernels",
    "measurement",
    "report",
    "study",
    "workflow",
)
FILES = ("Snakefile", "Makefile", "config.yaml", "pyproject.toml", "README.md", "LICENSE")
NAME = "matmul-study"
RECORD = """#!/bin/sh
# Measures this host into the folder `recording`; options are those of `measurement record`.
cd "$(dirname "$0")" || exit
for python in python{version} python3 python; do
  if "$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' 2>/dev/null
  then
    export PYTHONPATH="$PWD/packages"
    exec "$python" -m measurement record --config config.yaml --cubins cubins{commit} \\
      --out recording "$@"
  fi
done
echo "error: this bundle was made for Python {version}, and none runs here; make one with yours" >&2
exit 2
"""


def main() -> None:
    """Run the command; raises StudyError."""
    parser = argparse.ArgumentParser(prog="workflow/bundle.py", description=__doc__)
    parser.add_argument("--architecture", nargs="*", default=[], help="of GPUs, for example sm_90")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bundle.tar.gz")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder), arguments.architecture)
        with (
            atomic_writer(arguments.out) as stream,
            gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(folder, NAME)
    size = arguments.out.stat().st_size
    print(f"The bundle: {arguments.out} ({size / 1e6:.0f} MB); unpacked, run {NAME}/record")


def pack(folder: Path, architectures: list[str]) -> None:
    """Fill a folder with what records; raises StudyError."""
    for name in TREE:
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    wanted = {*PACKAGES, *(["pycuda"] if architectures else [])}
    for distribution in with_dependencies(wanted):
        copy_package(distribution, folder / "packages")
    (folder / "cubins").mkdir()
    if architectures:
        config = load(ROOT / "config.yaml")
        nvcc = find_nvcc(config.toolchain.nvcc)
        for architecture in architectures:
            print(f"building for {architecture}", file=sys.stderr, flush=True)
            workers = len(os.sched_getaffinity(0))
            build_all(nvcc, builds(config.study), architecture, folder / "cubins", workers)
    commit = git()
    if commit["dirty"]:
        print("warning: this tree has changes, so no recording names a commit", file=sys.stderr)
    known = f" --commit {commit['commit']}" if commit["commit"] and not commit["dirty"] else ""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    script = folder / "record"
    script.write_text(RECORD.format(version=version, commit=known))
    script.chmod(0o755)


def with_dependencies(names: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """Yield the installed distributions of these names, and what they require here."""
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
    """Copy the files of an installed distribution, but for programs and bytecode."""
    for file in distribution.files or []:
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(str(file.locate())), target)


if __name__ == "__main__":
    sys.exit(exit_status(main))
