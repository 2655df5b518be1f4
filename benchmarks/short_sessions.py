"""Short sessions, some with slower kernels, for `python -m benchmarks.verdict_rates`.

    python -m benchmarks.short_sessions build --out DIR --architecture sm_90 --planted 50 100
    python -m benchmarks.short_sessions record --out DIR --start NAME --sessions 2 --planted 50 100

A session has the study's variants at four sizes and takes about a minute with 12 samples. `record`
makes DIR/NAME-1, DIR/NAME-2 ... and DIR/NAME-planted-PERMILLE; run it once per start of a machine.
In the slower kernels, every thread waits after its work for PERMILLE thousandths of its time.
"""

import argparse
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from base.errors import StudyError, exit_status
from base.paths import ROOT
from kernels.cubins.build import INSTRUMENTS, STEPS, Build
from kernels.cubins.compile import build_all
from kernels.cubins.toolchain import find_nvcc
from study.config import Config, load, validate
from study.narrow import narrowed
from study.plan import builds

SIZES, CPU_SIZE = [64, 256, 1024, 4096], 1024
SAMPLE_S = 0.008  # budget of each sample
SLOW = ("naive", "tile_transposed_b")  # they would take a third of a session: over 0.1 s at 4096
_KERNEL = r'extern "C" __global__ void\s+((?:[^()"]|\([^)]*\))*?)\b{}\s*\(([^)]*)\)'
_WITH_WAITING = """
extern "C" __global__ void {attributes}{name}({parameters}) {{
    long long moment = clock64();
    {name}_work({arguments});
    moment = clock64() + (clock64() - moment) * {permille} / 1000;
    while (clock64() < moment) {{}}
}}
"""


def study(samples: int) -> Config:
    """Return the quick study at `SIZES` with B = 32 and tile shapes, without `SLOW` variants."""
    whole = load(ROOT / "config.yaml", "quick")
    config = narrowed(whole, [name for name in whole.study.variants if name not in SLOW], SIZES)
    short = config.study.plain() | {"block_sizes": [32]}
    short["cpu"] |= {"sizes": [CPU_SIZE]}
    short["protocol"] |= {"samples": samples, "gpu_cell_budget_s": SAMPLE_S * samples}
    return validate({**config.plain(), "study": short}, "config.yaml")


def with_waiting(text: str, name: str, permille: int) -> str:
    """Return a kernel's source with a wait after its work; raise StudyError if it has no kernel."""
    match = re.search(_KERNEL.format(name), text)
    if not match:
        raise StudyError(f'{name}: no kernel extern "C" __global__ void {name}(...)')
    parameters = match[2]
    arguments = ", ".join(re.findall(r"(\w+)\s*$", part)[0] for part in parameters.split(","))
    work = f"static __device__ __forceinline__ void {name}_work({parameters})"
    kernel = _WITH_WAITING.format(
        attributes=match[1],
        name=name,
        parameters=parameters,
        arguments=arguments,
        permille=permille,
    )
    return text[: match.start()] + work + text[match.end() :] + kernel


def build(config: Config, architecture: str, folder: Path, permille: int) -> None:
    """Build the cubins of a study into `folder`, with waiting if `permille` > 0."""
    with tempfile.TemporaryDirectory() as changed:
        made = [_changed(one, permille, Path(changed)) for one in builds(config.study)]
        build_all(find_nvcc(config.toolchain.nvcc), made, architecture, folder)


def _changed(build: Build, permille: int, folder: Path) -> Build:
    """Return a build whose kernel waits after its work; instruments and steps stay as they are."""
    if not permille or build in INSTRUMENTS or build.variant in STEPS:
        return build
    source = folder / f"{build.stem}.cu"
    macros = [f"#define {name} {value}\n" for name, value in build.defines.items()]
    text = with_waiting((ROOT / build.source).read_text(), build.variant, permille)
    source.write_text("".join(macros) + text)
    return replace(build, file=str(source))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.short_sessions")
    parser.add_argument("command", choices=["build", "record"])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--planted", nargs="*", type=int, default=[], metavar="PERMILLE")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--start", default="session")
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--commit", help="of a copy without history")
    options = parser.parse_args()
    config, cubins = study(options.samples), options.out / "cubins"
    if options.command == "build":
        for permille in (0, *options.planted):
            build(config, options.architecture, cubins / str(permille), permille)
        return 0
    from measurement.recorder.record import record

    sessions = {f"{options.start}-{at + 1}": 0 for at in range(options.sessions)}
    sessions |= {f"{options.start}-planted-{permille}": permille for permille in options.planted}
    for name, permille in sessions.items():
        if not (options.out / name).exists():
            folder = cubins / str(permille)
            record(config, 0, options.out / name, folder, options.commit)
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
