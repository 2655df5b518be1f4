"""User-supplied kernels for tests: a file with a launch becomes a variant without being checked."""

from dataclasses import replace
from pathlib import Path

from kernels.catalog.user_supplied import Facts, LaunchFacts
from kernels.catalog.variant import UserKernel
from kernels.launches.program import write
from kernels.launches.verdict import unjudged


def supplied(path: Path, text: str, baseline: str | None = None) -> UserKernel:
    """Write a kernel with a ``// launch:`` comment; return it as a variant for all sizes."""
    path.write_text(text)
    (assumed,) = unjudged(path, text, None, None)
    return write(replace(assumed, multiple=1), baseline, path.parent / "tried")


def listed(name: str, baseline: str) -> str:
    """Return a file of a recording that is read and never compiled: 32x32 of C, 256 threads."""
    launch = LaunchFacts(
        launch=f"{name}<<<1, 256>>>(A, B, C, N)",
        numbers=("N",),
        pointers=("A", "B", "C"),
        tile=(32, 32),
        threads=256,
        is_square=True,
    )
    facts = Facts(name=name, baseline=baseline, launch=launch)
    return f"this is read and never compiled\n{facts.line('.cu').rstrip()}"
