"""Wrong verdicts of `gemm-study try`: ``python -m benchmarks.judge_outside_kernels``.

The kernels and their right verdicts are in `benchmarks.outside_kernels`. The command prints each
wrong verdict, and the numbers of right, wrong and unsupported ones. Arguments select kernels whose
names contain one of them. It takes about two minutes and needs no GPU.
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import benchmarks.outside_kernels_styles  # noqa: F401  adds kernels
from base.errors import StudyError
from benchmarks.outside_kernels import CORRECT, KERNELS, UNSUPPORTED
from kernels.catalog.entries import VARIANTS
from kernels.catalog.user_supplied import adopt
from kernels.catalog.variant import UserKernel
from kernels.host_execution.compiler import NotSupported
from kernels.host_execution.trial import checked


def judge(source: Path) -> str:
    """Return "correct", "unsupported" or the message of the fault."""
    entry = adopt(source)
    assert isinstance(entry, UserKernel)
    try:
        list(checked(entry))
    except NotSupported:
        return UNSUPPORTED
    except StudyError as fault:
        return str(fault)
    finally:
        del VARIANTS[entry.name]
    return CORRECT


def wrong_verdicts(names: Iterable[str]) -> dict[str, str]:
    """Return the verdict on each kernel that is judged wrongly."""
    wrong = {}
    for name in names:
        text, verdict = KERNELS[name]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "mine.cu"
            source.write_text(text)
            found = judge(source)
        plain = verdict in (CORRECT, UNSUPPORTED)
        if not (found == verdict if plain else re.search(verdict, found)) or "\n" in found:
            wrong[name] = found
    return wrong


def main(parts: Sequence[str]) -> int:
    """Judge the kernels whose names contain a part, or all; return 1 if a verdict is wrong."""
    names = [name for name in KERNELS if not parts or any(part in name for part in parts)]
    wrong = wrong_verdicts(names)
    for name, found in wrong.items():
        print(f"{name}: {found}", flush=True)
    unsupported = sum(KERNELS[name][1] == UNSUPPORTED for name in names)
    right = len(names) - len(wrong)
    counts = f"{right} right verdicts, {len(wrong)} wrong; {unsupported} are unsupported"
    print(f"{len(names)} kernels: {counts}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
