"""``gemm-study``: all commands of the study, for users, the Snakefile and the documents.

``python -m workflow`` is the same, with the code of the current folder. A command is a function:
its parameters are the arguments, its docstring is the help. Commands import their libraries
themselves: so help is fast, and so is the start of worker processes, which import this module.
"""

import locale
import os
import re
import shlex
import sys
from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from base.command_line import CommandParser, output_path, print_json, reference, whole_number
from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.paths import RESULTS, ROOT, STORE, default_config
from base.progress import Progress
from kernels.catalog.baselines import FASTEST_NAIVE, Baseline
from kernels.products.shape import LARGEST_SIZE

TABLES = RESULTS / "tables"
QUESTIONS = RESULTS / "questions"
CORES = len(os.sched_getaffinity(0))
CONFIG = default_config()
_MORE = """examples:
  gemm-study report                                write the report, as `make report`
  gemm-study record --device 0 --out DIR           measure a GPU and its host
  gemm-study try mine.cu                           check your own kernel
  gemm-study compare OLD NEW                       find slower configurations
  gemm-study history FILE RESULT --label COMMIT    find lasting changes of benchmarks
  gemm-study doctor                                find unusual values of this machine
  gemm-study reproduce                             compare everything with the published study
  gemm-study validate DIR                          check a recording
  gemm-study advise --gpu h100 --n 3000            predict times

See also `gemm-study COMMAND --help`. For completion in bash and zsh:
  eval "$(register-python-argcomplete gemm-study)"
"""


def _gpu(text: str) -> str | int:
    """Parse ``auto``, the index of a GPU, or part of its name."""
    if text.isascii() and text.isdigit():
        return int(text)
    if re.search("[A-Za-z]", text):
        return text
    raise ArgumentTypeError(f"{text!r} is not a GPU; use auto, an index or a name")


def _commit(text: str) -> str:
    if re.fullmatch("[0-9a-f]{7,64}", text):
        return text
    raise ArgumentTypeError(f"{text!r} is not a hash; use hexadecimal digits as in git")


def _difference(text: str) -> float:
    """Parse a relative difference above 0."""
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise ArgumentTypeError(f"{text!r} is not a number above 0, such as 0.02")


def _macro(text: str) -> str:
    if re.match(r"[A-Za-z_]\w*(\(|=|$)", text):
        return text
    raise ArgumentTypeError(f"{text!r} defines no macro; use NAME=VALUE")


Size = Annotated[int, partial(whole_number, largest=LARGEST_SIZE)]
Output = Annotated[Path, output_path]
Gpu = Annotated[str | int, _gpu]
Commit = Annotated[str, _commit]
Difference = Annotated[float, _difference]
# The names of `kernels.catalog.locations`, which this module imports only when it needs them.
Place = Literal[
    "pageable", "pinned", "registered", "managed", "prefetched", "a_resident", "c_stays", "resident"
]

# Help of arguments that several commands have.
_SHARED = """
--config FILE     the study (default: config.yaml)
--device GPU      CUDA index, part of a GPU name, or auto: all GPUs of this host (default: auto)
--focus ID        the GPU in focus (default: the first)
--jobs N          parallel compilers or kernels (default: all cores)
--json            print JSON
--nvcc FILE       compiler to use (default: from PATH, otherwise from PyPI wheels)
--recording ID=PATH  id and folder of a recording; repeat for each recording and session
--tables DIR      folder of the tables (default: results/tables)
"""
# Arguments of which a user may give only one.
_EITHER = {"report": ("quick", "full"), "compare": ("format_", "json")}


# ---- Commands of users


def report(
    target: str = "report",
    *,
    quick: bool = False,
    full: bool = False,
    cores: Size | None = None,
    watch: bool = False,
) -> int:
    """Write results/report.html; measure and compute only what is missing or outdated.

    To resume after Ctrl-C, rerun the command.

    TARGET     rule or file to make (default: report)
    --quick    measure the shorter study (default: as in the last run; quick in the first run)
    --full     measure the whole study (default: as in the last run; quick in the first run)
    --cores N  number of CPU cores (default: all)
    --watch    update the report after each edit

    gemm-study report
    gemm-study report --full
    gemm-study report --watch
    """
    from workflow.run import Request, report

    scope = "full" if full else "quick" if quick else None
    return report(Request(target, scope, cores), watch)


def record(
    *,
    config: Path = CONFIG,
    device: Gpu = "auto",
    at_once: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
    quick: bool = False,
    variant: Sequence[str] = (),
    size: Sequence[Size] = (),
    more: Path | None = None,
    cubins: Path | None = None,
    commit: Commit | None = None,
) -> None:
    """Measure this host into one recording.

    To resume an interrupted recording, rerun the command. With --variant, --size or --more, only
    these configurations are measured and the result is printed.

    --at-once           measure several GPUs at the same time
    --out DIR           folder of the recording (default with --variant or --size: in
                        results/questions)
    --overwrite         replace a finished recording of the same host, GPUs and configurations
    --quick             shorter study, with the values of study.quick in the config
    --variant NAME ...  only these GPU variants
    --size N ...        only these matrix sizes
    --more FILE         only undecided rows of FILE, which `gemm-study compare --csv` wrote, with
                        enough samples for a verdict
    --cubins DIR        folder of prebuilt cubins (default: build them)
    --commit HASH       commit of a tree without git history (default: from git)

    gemm-study record --device 0 --out data/recordings/my-4090
    gemm-study record --quick --out data/recordings/my-4090
    gemm-study record --variant block block_unroll4 --size 2048
    gemm-study record --more differences.csv --out results/again
    """
    from measurement.devices.discovery import select
    from measurement.recorder.answer import answer
    from measurement.recorder.record import record
    from measurement.recorder.target import unused
    from study.config import load
    from study.narrow import narrowed, undecided

    samples = None
    if more:
        variants, sizes, samples = undecided(more)
        variant, size = variant or variants, size or sizes
    is_question = bool(variant or size)
    if out is None and not is_question:
        raise StudyError("--out: is missing; name a folder for the recording")
    if variant and not select(device):
        raise StudyError(
            "--variant: no NVIDIA GPU on this host; use only --size to measure its CPU"
        )
    out = out or unused(QUESTIONS / "-".join(map(str, [*variant, *size, device])))
    study = narrowed(load(config, "quick" if quick else None), variant, size, samples=samples)
    recording = record(study, device, out, cubins, commit, at_once=at_once, overwrite=overwrite)
    counts = recording.checks["status"].value_counts()
    outcome = ", ".join(f"{count} {status}" for status, count in counts.items())
    print(f"{out}: {len(recording.samples)} samples; cells: {outcome}", file=sys.stderr)
    if is_question:
        print("\n".join(answer(recording)))


def validate(recordings: list[Path]) -> int:
    """Check recordings, and print a summary of each.

    DIR ...  folder of a recording

    gemm-study validate data/recordings/my-4090
    """
    from measurement.recording.gallery import validate

    return max([validate(folder) for folder in recordings])


def doctor(
    *,
    device: Gpu = "auto",
    recordings: Path = ROOT / "data" / "recordings",
    offload: bool = False,
    config: Path = CONFIG,
    json: bool = False,
) -> None:
    """Compare this machine with the recorded machines and report unusual values.

    It measures the ceilings of links, GPUs and CPU in about two minutes and changes nothing.
    Without a GPU it examines the CPU.

    --offload         measure instead from which size the GPU is faster than the CPU, for square
                      products and products with a vector, by location of the data
    --recordings DIR  folder of the recordings to compare with (default: data/recordings of the
                      study)

    gemm-study doctor
    gemm-study doctor --device 0 --json
    gemm-study doctor --offload --json
    """
    if offload:
        from study.config import load
        from workflow.offload import offload as measured

        return measured(load(config), device, json)
    from measurement.health.command import doctor

    return doctor(config, device, recordings, json)


def try_(
    file: Path | None = None,
    *,
    example: bool = False,
    json: bool = False,
    launch: Sequence[str] = (),
    kernel: str | None = None,
    include: Sequence[Path] = (),
    define: Sequence[Annotated[str, _macro]] = (),
    baseline: str | None = None,
    device: int | None = None,
    size: Sequence[Size] = (),
    architecture: Sequence[str] = (),
    gpu: Path | None = None,
    config: Path = CONFIG,
) -> int:
    """Check, build and compare your own kernel; with --device, time it.

    FILE contains CUDA kernels as they are, or a function of Triton, CuPy, Numba or PyTorch. The
    launch comes from --launch, a `// launch:` comment or the host's code; otherwise it is inferred.
    The exit status is 0 if no fault was found, 2 if the kernel is wrong, and 3 if it was not
    checked to the end on the CPU (a Python function: on a GPU). See docs/how-to/try-a-kernel.md.

    FILE                    the .cu or .py file
    --example               write a kernel to begin with to mine.cu
    --json                  print the verdicts and counts of the CPU as JSON
    --launch LAUNCH         how the kernel is launched, in CUDA's notation, with M, N, K, A, B and
                            C; several in order
    --kernel NAME           check only this kernel, or this Python function, of the file
    -I --include DIR        folder with files that FILE includes; may be repeated
    -D --define NAME=VALUE  macro that FILE leaves to the compiler; may be repeated
    --baseline NAME         variant of the catalog to compare with
    --device INDEX          time it on the GPU with this CUDA index
    --size N ...            matrix sizes to time (default: 1024 and 4096)
    --architecture SM ...   only these architectures, such as sm_80 (default: all that nvcc
                            supports; sm_90 if FILE has several kernels)
    --gpu DIR               recording with the roofline to compare with (default: the recording of
                            the report)

    gemm-study try --example
    gemm-study try mine.cu
    gemm-study try mine.cu --launch 'gemm<32><<<dim3(N / 32, M / 32), dim3(32, 32)>>>(A, B, C, N)'
    gemm-study try mine.cu --architecture sm_90 --gpu data/recordings/h200-sxm-9
    gemm-study try mine.cu --device 0 --size 1024 4096
    gemm-study try torch_matmul.py --device 0
    """
    if example:
        return _write_example(Path("mine.cu"))
    if file is None:
        raise StudyError("FILE: missing; name a .cu or .py file, or write one by --example")
    launches = "; ".join(launch) or None
    if json:
        from workflow.guard import results, status_of

        all_results = list(results(file, launches, kernel, include, define))
        print_json([vars(result) for result in all_results])
        return status_of(all_results)
    from workflow.trial import Wanted, attempt

    wanted = Wanted(launches, kernel, include, define, baseline, gpu, architecture, device, size)
    return _print_lines(attempt(file, config, wanted))


def _write_example(path: Path) -> int:
    if path.exists() or path.is_symlink():
        raise StudyError(f"{path}: exists; move it, or try it: gemm-study try {path}")
    write_atomic(path, (ROOT / "data" / "example.cu").read_text())
    print(f"{path}: a kernel to begin with; try it: gemm-study try {path}")
    return 0


def _print_lines(lines: Generator[str, None, int]) -> int:
    """Print lines as they come; return the result of the generator."""
    while True:
        try:
            print(next(lines), flush=True)
        except StopIteration as end:
            return int(end.value)


def guard(
    paths: Sequence[Path] = (),
    *,
    counts: Path | None = None,
    format_: Literal["text", "github"] = "text",
) -> int:
    """Check all kernels of a repository, without a GPU.

    Folders are searched for CUDA sources with kernels that multiply matrices. The status is 2 if a
    kernel is wrong, 1 if its counts of memory accesses, registers or spilled bytes grew, 3 if it
    was not checked to the end, else 0. See docs/how-to/guard-a-repository.md.

    PATH ...       files and folders (default: this folder)
    --counts FILE  JSON file with the counts of the last run; this run updates it
    --format       lines of text, or annotations of GitHub Actions (default: text)

    gemm-study guard kernels
    gemm-study guard . --counts counts.json --format github
    """
    from workflow.guard import guarded, status_of

    all_results = []
    for result in guarded(paths or [Path()], counts):
        all_results.append(result)
        print(f"{result.key}: {result.status}: {result.text}", flush=True)
        if format_ == "github" and (annotation := result.annotated()):
            print(annotation, flush=True)
    if not all_results:
        names = ", ".join(map(str, paths or [Path()]))
        raise StudyError(f"{names}: no CUDA source with a kernel; name a file or folder")
    return status_of(all_results)


def compare(
    recordings: list[Path],
    *,
    against: Sequence[Path] = (),
    repeat: Sequence[Path] = (),
    threshold: Difference | None = None,
    format_: Literal["text", "github", "junit"] = "text",
    hardware: bool = False,
    telemetry: bool = False,
    csv: Output | None = None,
    json: bool = False,
) -> int:
    """Compare the times of two recordings or result files, or of several sessions each.

    The median times of each configuration are compared. The output is a summary and the ten times
    that differ most. The exit status is 1 if B is slower than A in any configuration, 2 after an
    error, 3 if nothing is slower but most times are undecided, else 0. Times of identical code are
    listed separately and do not count: they compare GPUs and hosts. Result files of nvbench, Google
    Benchmark, pytest-benchmark, hyperfine or CSV need repeated sessions of one build, which give
    the variation of that machine. See docs/how-to/compare-result-files.md.

    RECORDING ...    folders of recordings, or result files, of A (the reference) and B; with
                     --against, all of A
    --against B ...  sessions of B; each side may have several sessions of the same code
    --repeat R ...   result files of repeated sessions of one build, such as the one of A
    --threshold X    smallest relative difference that counts (default: that of the report)
    --format         text, annotations for GitHub Actions, or JUnit XML (default: text)
    --hardware       also count differences of identical code
    --telemetry      add clock, temperature, power and throttling of both GPUs to each row
    --csv FILE       write all comparisons to FILE, in an existing folder

    gemm-study compare data/recordings/h200-sxm-9 data/recordings/h200-sxm-10
    gemm-study compare A B --threshold 0.05 --csv differences.csv
    gemm-study compare A1 A2 --against B1 B2
    gemm-study compare old.json new.json --repeat base1.json base2.json base3.json
    """
    if csv and not csv.parent.is_dir():
        raise StudyError(f"--csv {csv}: there is no folder {csv.parent}; create it first")
    if not against and len(recordings) != 2:
        raise StudyError("give two recordings, or A1 A2 --against B1 B2")
    a, b = (recordings, against) if against else (recordings[:1], recordings[1:])
    form = "json" if json else format_
    if repeat or any(path.suffix in (".json", ".csv") for path in recordings):
        from analysis.results.command import compare_files

        return compare_files(a, b, repeat, threshold, form, csv)
    from analysis.trust.command import compare

    return compare(a, b, threshold, form, hardware, telemetry, csv)


def history(
    file: Path,
    results: Sequence[Path] = (),
    *,
    label: str = "",
    threshold: Difference = 0.02,
    format_: Literal["text", "github"] = "text",
    svg: Output | None = None,
) -> int:
    """Append result files to a history of times, and report lasting changes.

    A change lasts if the median of at least three entries differs from the median before it. The
    exit status is 1 if the new entry shows that a benchmark became slower, 2 after an error, else
    0.

    FILE           history, with a line of JSON per entry; made if it does not exist
    RESULT ...     result files of one build; without them, the history is only read
    --label TEXT   name of the entry, such as a commit
    --threshold X  relative change of interest; changes below half of it never count (default: 0.02)
    --format       lines of text, or annotations of GitHub Actions (default: text)
    --svg FILE     draw the history

    gemm-study history benchmarks.jsonl new1.json new2.json --label "$GITHUB_SHA"
    gemm-study history benchmarks.jsonl --svg history.svg
    """
    from analysis.results.history import history

    return history(file, results, label, threshold, format_, svg)


def advise(
    *,
    gpu: str,
    n: int,
    m: int | None = None,
    k: int | None = None,
    arithmetic: Literal["any", "fp32", "tensor"] = "any",
    host_memory: Place = "pageable",
    products: int = 1,
    independent: bool = False,
    streams: int = 1,
    tables: Path = TABLES,
    json: bool = False,
) -> None:
    """Predict the time of products on a GPU of the report.

    The answer gives the end-to-end time of float32 products M×K · K×N, its interval, the speedup
    over the CPU and the break-even size.

    --gpu ID          a GPU of the report
    --n N             columns of C, 1 to 46340
    --m M             rows of C (default: N)
    --k K             columns of A and rows of B (default: N)
    --arithmetic      fp32: strict FP32; tensor: 16-bit products on tensor cores (default: any)
    --host-memory     location of the data: pageable (default, as from malloc), pinned, registered
                      (pinned in each run), managed, prefetched, a_resident (A on the GPU), c_stays,
                      resident (all on the GPU)
    --products COUNT  products with the same A, which is copied once (default: 1)
    --independent     each product has an A of its own
    --streams COUNT   streams of the products, from pinned memory (default: 1)

    gemm-study advise --gpu h100 --n 3000
    gemm-study advise --gpu h100 --n 1 --m 4096 --k 4096 --host-memory a_resident
    gemm-study advise --gpu h100 --n 700 --host-memory pinned --products 50 --streams 4
    """
    from analysis.decide.advise import advise, answer
    from analysis.decide.questions import Question
    from analysis.decide.surfaces import Run
    from kernels.products.shape import Shape

    shape = Shape(1, m if m is not None else n, n, k if k is not None else n)
    run = Run(host_memory, products, streams, independent)
    asked = Question(gpu, shape, run, arithmetic)
    if json:
        print_json(answer(tables, asked))
    else:
        print(advise(tables, asked))


def check(
    report: Path = RESULTS / "report.html",
    *,
    tables: Path = TABLES,
    templates: Path = ROOT / "report",
) -> int:
    """Compare every number of a report with its table.

    The exit status is 1 if a number differs from its table.

    REPORT           the report (default: results/report.html)
    --templates DIR  folder of the templates; their own numbers need no table (default: those of the
                     study)

    gemm-study check
    gemm-study check results/report.html --templates report
    """
    from analysis.render.check import print_faults

    return print_faults(report, tables, templates)


def reproduce(
    *,
    config: Path = CONFIG,
    session: Path | None = None,
    publish: bool = False,
    json: bool = False,
) -> int:
    """Rebuild tables and report, and compare every conclusion with the published ones.

    Recordings, kernel sources and published times must be the same files. Tables must have the same
    texts and verdicts, and the same numbers within 0.1 %, because processors round fits
    differently. The outcomes are written to results/reproduced as JSON and HTML. The exit status is
    1 if anything is not reproduced.

    --session DIR  a recording of this machine; its verdicts are also compared
    --publish      write data/published/reproduction.json and .zip instead of comparing

    gemm-study reproduce
    gemm-study record --quick --out mine && gemm-study reproduce --session mine
    """
    from study import reproduction

    if publish:
        reproduction.publish(config)
        print(f"published: {reproduction.PUBLISHED}")
        return 0
    outcomes = reproduction.reproduce(config, session)
    content = reproduction.write(outcomes, RESULTS / "reproduced")
    if json:
        print_json(content)
    else:
        print("\n".join(reproduction.summary(outcomes)), flush=True)
    return int((outcomes["outcome"] == reproduction.NOT_REPRODUCED).any())


# ---- Kernels and recordings


def list_(*, json: bool = False) -> None:
    """Print the catalog of kernels."""
    from kernels.catalog.listing import lines, rows

    if json:
        print_json(rows())
    else:
        print("\n".join(lines()))


def devices() -> None:
    """List the GPUs of this host."""
    from measurement.devices.discovery import cuda_devices

    present = cuda_devices()
    if not present:
        raise StudyError("no NVIDIA GPU: the driver lists none; check `nvidia-smi`")
    for device in present:
        print(f"{device.index}  {device.name}  compute capability {device.compute_capability}")


def build(
    *,
    architecture: str,
    out: Output,
    one: str | None = None,
    config: Path = CONFIG,
    nvcc: str | None = None,
    jobs: Size = CORES,
) -> None:
    """Compile the cubins of a study, or one.

    --architecture SM  for example sm_90
    --out PATH         folder of the cubins, or with --one the cubin
    --one NAME         only this build, for example block-b32-float32-exact
    """
    from kernels.cubins.build import parse_build
    from kernels.cubins.compile import build_all, build_cubin
    from kernels.cubins.toolchain import find_nvcc
    from study.config import load
    from study.plan import builds

    study = load(config).study  # a fault is reported, also if only one kernel is built
    compiler = find_nvcc(nvcc)
    if one:
        build_cubin(compiler, parse_build(one), architecture, out)
        return
    wanted = builds(study)
    progress = Progress(architecture, len(wanted), "kernels built")
    show = partial(_show_last, progress)
    build_all(compiler, wanted, architecture, out, jobs, out / STORE, show)
    progress.end()


def _show_last(progress: Progress, done: int, last: Any) -> None:
    progress.show_share(last.stem, done)


def count(
    *,
    variant: str | None = None,
    block_size: int | None = None,
    dtype: str = "float32",
    size: Sequence[str] = (),
    theory_size: Sequence[str] = (),
    out: Output | None = None,
    config: Path = CONFIG,
    jobs: Size = CORES,
) -> None:
    """Count the memory accesses of a study's kernels, or of one.

    Runs kernels on this host, without a GPU, and checks products bit for bit. Writes CSV: accesses
    per source line and in total, with theory and the names of ncu's counters.

    --variant NAME         only this kernel, for example block
    --block-size B         for variants with block sizes
    --dtype TYPE           element type (default: float32)
    --size N ...           sizes, or shapes MxKxN, BATCHxMxKxN, to run and check
    --theory-size N ...    sizes, or shapes MxKxN, BATCHxMxKxN, for theory only, of any size
    --out PATH             folder for a study; the CSV of one kernel (default: print it)

    gemm-study count --variant block --block-size 32 --size 64 70
    """
    if variant:
        _count_one(variant, block_size, dtype, size, theory_size, out)
    elif out is None:
        raise StudyError("--out: is missing; name a folder, or one kernel by --variant")
    else:
        _count_all(config, out, jobs)


def _count_one(
    name: str,
    block_size: int | None,
    dtype: str,
    sizes: Sequence[str],
    theory_sizes: Sequence[str],
    out: Path | None,
) -> None:
    from kernels.catalog.entries import variant
    from kernels.catalog.product import Product
    from kernels.host_execution.counts import table
    from kernels.products.shape import Shape

    entry = variant(name)
    tile = entry.block_size(block_size)
    counted, predicted = (
        [Product(name, dtype, Shape.parse(text), tile) for text in texts]
        for texts in (sizes, theory_sizes)
    )
    if not (counted or predicted):
        raise StudyError("--size: is missing; give sizes to run, or --theory-size")
    text = table(counted, predicted)
    if out:
        write_atomic(out, text)
    else:
        print(text, end="")


def _count_all(config: Path, out: Path, jobs: int) -> None:
    from kernels.host_execution.counts import COUNTED_SIZE, count_all
    from study.config import load
    from study.counting import plan

    # The counts of a quick study are also used for full recordings, but it runs no large product.
    size = COUNTED_SIZE if load(config).study.scope == "full" else None
    tables = plan(load(config, "full").study, size)
    progress = Progress("accesses", len(tables), "kernels counted")
    count_all(tables, out, jobs, out / STORE, partial(_show_last, progress))
    progress.end()


def ranges(*, out: Output) -> None:
    """Compute the errors of float32 products of unusual values on the CPU.

    The values are large and small numbers, graded rows, infinities and NaN. The products are in
    strict FP32, on tensor cores, and with operands rounded to TF32.

    --out FILE  CSV file
    """
    from kernels.host_execution.ranges import write

    write(out)


def counters(recording: Path, *, device: int = 0) -> None:
    """Add hardware counters (Nsight Compute) to a recording of the same GPU model.

    DIR             folder of the recording
    --device INDEX  CUDA index (default: 0)
    """
    from measurement.instruments.counters import count

    count(recording, device)


def accuracy(recording: Path, *, device: int = 0) -> None:
    """Add the errors of products to a recording of the same GPU model.

    DIR             folder of the recording
    --device INDEX  CUDA index (default: 0)
    """
    from measurement.instruments.accuracy import add_accuracy

    add_accuracy(recording, device)


def sanitize(
    *,
    config: Path = CONFIG,
    size: Sequence[str] = (),
    tool: Sequence[str] = (),
    out: Output = RESULTS / "sanitize",
    device: int = 0,
) -> int:
    """Run the kernels under compute-sanitizer.

    --size N ...     sizes N, or shapes MxKxN or BATCHxMxKxN
    --tool NAME ...  of compute-sanitizer (default: memcheck racecheck initcheck synccheck)
    --out DIR        folder for the output of the tools (default: results/sanitize)
    --device INDEX   CUDA index (default: 0)
    """
    from measurement.instruments.sanitize import SIZES, TOOLS, sanitize
    from study.config import load

    return sanitize(load(config), device, size or SIZES, tool or TOOLS, out)


def bundle(*, architecture: Sequence[str] = (), out: Output = RESULTS / "bundle.tar.gz") -> None:
    """Pack tree, cubins and packages into an archive, to record on a host without a network.

    --architecture SM ...  of GPUs, for example sm_90
    --out FILE             the archive (default: results/bundle.tar.gz)
    """
    from measurement.recorder.bundle import write

    write(architecture, out)


def node(name: str, *, attempt: int) -> None:
    """Measure a GPU on a Slurm node, or write why its recording is missing.

    ID           id of an entry of gpus in the config
    --attempt N  1: measure; 2: write why attempt 1 failed
    """
    from measurement.recorder.on_node import run

    run(name, attempt)


# ---- Tables and report


def tables(
    *,
    published: Path,
    systems: Path,
    statements: Path,
    out: Output,
    recording: Sequence[str] = (),
    cubins: Sequence[Path] = (),
    counts: Sequence[Path] = (),
    ranges: Path | None = None,
    sizes: Sequence[Size] = (),
) -> None:
    """Write all tables.

    --published FILE     CSV file of the published times
    --systems FILE       CSV file of the sources' systems
    --statements FILE    CSV file of the numbers in the text of source V
    --out DIR            folder of the tables
    --cubins [FILE ...]  cubins built from this tree, for builds.csv
    --counts [FILE ...]  tables of `gemm-study count`, for counts.csv
    --ranges FILE        CSV file by `gemm-study ranges`, for ranges.csv
    --sizes [N ...]      matrix sizes of the study, for unmeasured_sizes.csv
    """
    from analysis.data.sessions import recordings_of
    from analysis.tables import write

    paths, missing = recordings_of(recording)
    write(paths, (published, systems, statements), cubins, counts, out, missing, sizes, ranges)


def answers(*, tables: Path = TABLES, focus: str | None = None) -> None:
    """Print the three answers of the report."""
    from analysis.render.terminal import answers

    print(answers(tables, focus))


def figures(*, out: Output, tables: Path = TABLES, focus: str | None = None) -> None:
    """Draw the figures from the tables.

    --out DIR  folder of the figures
    """
    from analysis.render.figures import write_figures

    write_figures(tables, out, focus)


def page(
    *,
    figures: Path,
    out: Output,
    tables: Path = TABLES,
    template: Path = ROOT / "report",
    recording: Sequence[str] = (),
    focus: str | None = None,
    baseline: Baseline = FASTEST_NAIVE,
) -> None:
    """Write the page of the report from tables and figures, and its answers as text beside it.

    --figures DIR   folder of the figures
    --out FILE      the page; the text has the same name and the suffix .txt
    --template DIR  folder of the report's templates (default: those of the study)
    --baseline      baseline of the speedups that the page shows first (default: fastest-naive)
    """
    from jinja2 import TemplateSyntaxError

    from analysis.archive.citation import Maker
    from analysis.data.sessions import folders_by_session, recordings_of
    from analysis.render import terminal
    from analysis.render.page import render
    from base.version import git

    recordings = folders_by_session(recordings_of(recording)[0])
    maker = Maker(shlex.join(["gemm-study", *sys.argv[1:]]), **git())
    try:
        render(tables, figures, recordings, template, out, focus, maker, baseline)
    except TemplateSyntaxError as error:
        place = f"{error.filename or error.name}:{error.lineno}"
        raise StudyError(f"{place}: {error.message}; correct the template") from None
    write_atomic(out.with_suffix(".txt"), f"{terminal.answers(tables, focus)}\n")


def crate(
    *,
    out: Output,
    recording: Sequence[str] = (),
    config: Path | None = None,
    tables: Path | None = None,
    report: Path | None = None,
) -> None:
    """Write the study, or only recordings, as an RO-Crate.

    --out FILE     the crate
    --config FILE  the study's configuration; a study needs --config, --tables and --report
    --tables DIR   folder of the tables; a study needs --config, --tables and --report
    --report FILE  the report; a study needs --config, --tables and --report
    """
    from analysis.archive.crate import Recordings, Study, write_crate
    from analysis.data.sessions import folders_by_session, recordings_of
    from base.version import git

    recordings = folders_by_session(recordings_of(recording)[0])
    if config and tables and report:
        write_crate(Study(config, recordings, tables, report, git()["commit"]), out)
    elif recordings and not (config or tables or report):
        write_crate(Recordings(recordings), out)
    else:
        raise StudyError("crate: use --config, --tables and --report, or only --recording")


def document(
    name: Literal["commands", "glossary", "numbers", "recordings", "tables", "tutorials"],
) -> None:
    """Print a generated page of docs as Markdown, or update README and docs in place.

    PAGE  commands, glossary, recordings, tables: print it; numbers, tutorials: update the texts
    """
    if name == "commands":
        text = reference(parser())
    elif name in ("numbers", "tutorials"):
        from analysis.render import documents
        from workflow import tutorials

        update = documents.update if name == "numbers" else tutorials.update
        text = "".join(f"{path.relative_to(ROOT)}\n" for path in update())
    elif name == "glossary":
        from analysis.render.page import glossary_page

        text = glossary_page()
    elif name == "recordings":
        from measurement.recording.gallery import committed, gallery

        text = f"{gallery(committed())}\n"
    else:
        from analysis.schema import documentation

        text = documentation()
    print(text, end="")


# ---- The program

_OF_USERS = (
    report,
    record,
    validate,
    doctor,
    try_,
    guard,
    compare,
    history,
    advise,
    check,
    reproduce,
)
_OF_KERNELS = (list_, devices, build, count, ranges, counters, accuracy, sanitize, bundle, node)
_OF_THE_REPORT = (tables, answers, figures, page, crate, document)


class _Version(Action):
    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        cited = (ROOT / "CITATION.cff").read_text()  # an installed study has this file, too
        print("gemm-study", cited.partition("\nversion: ")[2].split()[0], flush=True)
        parser.exit()


def parser() -> CommandParser:
    """Return the parser of all commands."""
    description = "Measure matrix multiplication on GPUs."
    made = CommandParser("gemm-study", description, _MORE)
    text = "print the version"
    made.add_argument("--version", action=_Version, nargs=0, default=SUPPRESS, help=text)
    made.add_commands([*_OF_USERS, *_OF_KERNELS, *_OF_THE_REPORT], _SHARED, _EITHER)
    return made


def main() -> int:
    """Run the command; return its exit status.

    Files are UTF-8. In another locale, Python begins again in its UTF-8 mode.
    """
    if not sys.flags.utf8_mode and locale.getencoding().lower() != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return exit_status(_run)


def _run() -> int | None:
    made = parser()
    if "_ARGCOMPLETE" in os.environ:  # completion in a shell
        import argcomplete

        argcomplete.autocomplete(made)
    return made.run()


if __name__ == "__main__":
    sys.exit(main())
