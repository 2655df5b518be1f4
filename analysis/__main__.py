"""Command line of the analysis; ``python -m analysis --help`` lists its commands.

Each command imports only its own libraries, so that `advise` starts quickly.
"""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from base import command_line
from base.command_line import (
    CommandParser,
    Commands,
    add_command,
    add_json,
    commands_of,
    output_path,
)
from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.paths import MAKE_REPORT, RESULTS, ROOT
from kernels.catalog.baselines import BASELINES, FASTEST_NAIVE

_TABLES = RESULTS / "tables"
_TABLES_HELP = "folder of the tables (default: results/tables)"
_MOST_FAULTS = 20  # that `check` prints
_HELP = {
    "published": "CSV file of the published times",
    "statements": "CSV file of the figures in the text of source V",
    "systems": "CSV file of the sources' systems",
    "tables": "folder of the tables",
    "figures": "folder of the figures",
    "template": "folder of the report's templates",
    "config": "the study's configuration",
    "report": "the report",
    "out": "output folder (report, crate: output file)",
}


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="python -m analysis", description="Compute tables, figures and report from recordings."
    )
    commands = commands_of(parser)

    def command(
        name: str, text: str, run: Callable[[argparse.Namespace], None], *options: str
    ) -> CommandParser:
        added = add_command(commands, name, text, run)
        for option in options:
            added.add_argument(f"--{option}", required=True, type=Path, help=_HELP[option])
        added.add_argument("--out", required=True, type=output_path, help=_HELP["out"])
        if name != "figures":
            text = "id and folder of a recording; repeat for each recording and session"
            added.add_argument(
                "--recording", action="append", default=[], metavar="ID=PATH", help=text
            )
        return added

    tables = command("tables", "write all tables", _tables, "published", "systems", "statements")
    for name, text in {
        "cubins": "cubins built from this tree, for builds.csv",
        "counts": "tables of `python -m kernels count`, for counts.csv",
    }.items():
        tables.add_argument(f"--{name}", type=Path, nargs="*", default=[], help=text)
    text = "matrix sizes of the study, for unmeasured_sizes.csv"
    tables.add_argument(
        "--sizes", type=command_line.whole_number, nargs="*", default=[], metavar="N", help=text
    )
    answers = add_command(commands, "answers", "print the three answers of the report", _answers)
    answers.add_argument("--tables", default=_TABLES, type=Path, help=_TABLES_HELP)
    report = command("report", "write the report", _report, "tables", "figures", "template")
    text = "baseline of the speedups that the page shows first (default: %(default)s)"
    report.add_argument("--baseline", choices=BASELINES, default=FASTEST_NAIVE, help=text)
    figures = command("figures", "draw the figures from the tables", _figures, "tables")
    for added in (figures, report, answers):
        added.add_argument("--focus", metavar="ID", help="the GPU in focus (default: the first)")
    text = "print columns, types and units of all tables as Markdown"
    add_command(commands, "schema", text, _schema)
    add_command(commands, "glossary", "print the glossary as Markdown", _glossary)
    crate = command("crate", "write the study, or only recordings, as an RO-Crate", _crate)
    for option in ("config", "tables", "report"):
        text = f"{_HELP[option]}; a study needs --config, --tables and --report"
        crate.add_argument(f"--{option}", type=Path, help=text)
    for add in (add_check, add_advise, add_compare):
        add(commands)
    return parser


def add_check(commands: Commands) -> None:
    """Add the command that compares the numbers of a report with its tables."""
    parser = add_command(
        commands,
        "check",
        "compare every number of a report with its table",
        _check,
        "The exit status is 1 if a number differs from its table.",
        ["gemm-study check", "gemm-study check results/report.html --templates report"],
    )
    text, default = "the report (default: results/report.html)", RESULTS / "report.html"
    parser.add_argument("report", type=Path, nargs="?", default=default, help=text)
    parser.add_argument("--tables", metavar="DIR", default=_TABLES, type=Path, help=_TABLES_HELP)
    text = "folder of the templates, which contain all other numbers (default: those of the study)"
    default = ROOT / "report"
    parser.add_argument("--templates", metavar="DIR", default=default, type=Path, help=text)


def add_compare(commands: Commands) -> None:
    """Add the command that compares two recordings."""
    parser = add_command(
        commands,
        "compare",
        "compare the times of two recordings, or of several sessions each",
        _compare,
        "The median times of each configuration are compared. The output is a summary and the ten "
        "times that differ most. The exit status is 1 if B is slower than A in any configuration, "
        "2 after an error, 3 if nothing is slower but most times are undecided, else 0. Times of "
        "identical code are listed separately and do not count: they compare GPUs and hosts.",
        [
            "gemm-study compare data/recordings/h100-sxm data/recordings/h100-sxm-again",
            "gemm-study compare A B --threshold 0.05 --csv differences.csv",
            "gemm-study compare A1 A2 --against B1 B2",
        ],
    )
    text = "folders of recordings A (the reference) and B; with --against, all folders of A"
    parser.add_argument("recordings", metavar="RECORDING", type=Path, nargs="+", help=text)
    text = "sessions of B; each side may have several sessions of the same code"
    parser.add_argument("--against", metavar="B", type=Path, nargs="+", help=text)
    text = "smallest relative difference that counts (default: that of the report)"
    parser.add_argument("--threshold", type=_threshold, help=text)
    forms = parser.add_mutually_exclusive_group()
    text = "text, annotations for GitHub Actions, or JUnit XML (default: %(default)s)"
    forms.add_argument("--format", choices=("text", "github", "junit"), default="text", help=text)
    text = "also count differences of identical code"
    parser.add_argument("--hardware", action="store_true", help=text)
    text = "add clock, temperature, power and throttling of both GPUs to each row"
    parser.add_argument("--telemetry", action="store_true", help=text)
    text = "write all comparisons to FILE, in an existing folder"
    parser.add_argument("--csv", metavar="FILE", type=output_path, help=text)
    add_json(forms)


def add_advise(commands: Commands) -> None:
    """Add the command that predicts the time of a product."""
    parser = add_command(
        commands,
        "advise",
        "predict the time of a product on a GPU of the report",
        _advise,
        "The answer gives the end-to-end time of a product of two float32 matrices, its interval, "
        "the speedup over the CPU and the break-even size.",
        [
            "gemm-study advise --gpu h100 --n 3000",
            "gemm-study advise --gpu h100 --n 3000 --host-memory pinned",
            "gemm-study advise --gpu h100 --n 700 --products 50",
        ],
    )
    parser.add_argument("--gpu", required=True, metavar="ID", help="a GPU of the report")
    parser.add_argument("--n", required=True, type=int, metavar="N", help="matrix size, 1 to 46340")
    kinds = ("pageable", "pinned")
    text = "host memory of the matrices (default: %(default)s, as from malloc)"
    parser.add_argument("--host-memory", choices=kinds, default="pageable", help=text)
    text = "products of the same matrices, which are copied once (default: %(default)s)"
    parser.add_argument("--products", metavar="COUNT", type=int, default=1, help=text)
    parser.add_argument("--tables", metavar="DIR", type=Path, default=_TABLES, help=_TABLES_HELP)
    add_json(parser)


def _threshold(text: str) -> float:
    """Parse a relative difference above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0; use for example 0.02")
    return value


def recordings_of(arguments: list[str]) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Return the folders of ``ID=PATH`` arguments by id, and reasons of missing recordings by id.

    Folders of one id are sessions of one recording. A PATH to a JSON file is the result of a
    cluster job. It contains the path of a recording, or the reason why it is missing. Raise
    StudyError for an invalid argument.
    """
    paths: dict[str, list[Path]] = {}
    missing = {}
    for argument in arguments:
        identifier, _, path = argument.partition("=")
        if not (identifier and path):
            raise StudyError(
                f"--recording {argument!r} is invalid; use ID=PATH, like h100=data/recordings/h100"
            )
        if path.endswith(".json"):
            try:
                result = json.loads(Path(path).read_text())
            except (OSError, ValueError) as error:
                raise StudyError(f"{path} is unreadable ({error}); record it again") from None
            if "missing" in result:
                missing[identifier] = str(result["missing"])
                continue
            path = result["recording"]
        if Path(path) in paths.setdefault(identifier, []):
            raise StudyError(f"--recording {argument!r} is given twice; remove one")
        paths[identifier].append(Path(path))
    return paths, missing


def write_tables(
    recordings: Mapping[str, Sequence[Path]],
    published: Sequence[Path],
    cubins: list[Path],
    counted: list[Path],
    out: Path,
    missing: Mapping[str, str] | None = None,
    sizes: Sequence[int] = (),
) -> None:
    """Write all tables to the folder `out`.

    `published` are the CSV files of times, systems and statements; see `analysis.tables.compute`.
    """
    from analysis import tables
    from analysis.data import store
    from kernels.cubins.compile import read_result

    printed, built = tables.Published.read(*published), [read_result(path) for path in cubins]
    frames = tables.compute(recordings, printed, built, counted, _progress, missing, sizes)
    store.write(frames, out)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _tables(arguments: argparse.Namespace) -> None:
    paths, missing = recordings_of(arguments.recording)
    csvs = (arguments.published, arguments.systems, arguments.statements)
    built, counted = arguments.cubins, arguments.counts
    write_tables(paths, csvs, built, counted, arguments.out, missing, arguments.sizes)


def _figures(arguments: argparse.Namespace) -> None:
    from analysis.render.figures import write_figures

    write_figures(arguments.tables, arguments.out, arguments.focus)


def _report(arguments: argparse.Namespace) -> None:
    from analysis.archive.citation import Maker
    from analysis.data.sessions import folders_by_session
    from analysis.render.page import render
    from measurement.recorder.provenance import git

    recordings = folders_by_session(recordings_of(arguments.recording)[0])
    maker = Maker(shlex.join(["python", "-m", "analysis", *sys.argv[1:]]), **git())
    folders = (arguments.tables, arguments.figures, recordings, arguments.template)
    render(*folders, arguments.out, arguments.focus, maker, arguments.baseline)


def _crate(arguments: argparse.Namespace) -> None:
    from analysis.archive.crate import Recordings, Study, write_crate
    from analysis.data.sessions import folders_by_session
    from measurement.recorder.provenance import git

    recordings = folders_by_session(recordings_of(arguments.recording)[0])
    config, tables, report = arguments.config, arguments.tables, arguments.report
    if config and tables and report:
        study = Study(config, recordings, tables, report, git()["commit"])
        write_crate(study, arguments.out)
    elif recordings and not (config or tables or report):
        write_crate(Recordings(recordings), arguments.out)
    else:
        raise StudyError("crate: use --config, --tables and --report, or only --recording")


def _answers(arguments: argparse.Namespace) -> None:
    from analysis.render.terminal import answers

    print(answers(arguments.tables, arguments.focus))


def _schema(_: argparse.Namespace) -> None:
    from analysis.schema import documentation

    print(documentation(), end="")


def _glossary(_: argparse.Namespace) -> None:
    from analysis.render.page import glossary_page

    print(glossary_page(), end="")


def _check(arguments: argparse.Namespace) -> int:
    """Print the numbers that differ and a word count; return 1 if a number differs, else 0."""
    from analysis.render.check import check, words

    report = arguments.report
    try:
        page = report.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not valid UTF-8"
        raise StudyError(f"{report}: {reason}; make it with {MAKE_REPORT}") from None
    if not arguments.templates.is_dir():
        raise StudyError(f"--templates {arguments.templates}: no such folder; correct the path")
    faults = check(page, arguments.tables, arguments.templates)
    shown, more = faults[:_MOST_FAULTS], len(faults) - _MOST_FAULTS
    print("\n".join(shown or ["every number agrees with its table"]))
    if more > 0:
        print(f"... and {more} more")
    print(f"{words(page)} words before the appendix", flush=True)
    return int(bool(faults))


def _advise(arguments: argparse.Namespace) -> None:
    from analysis.decide.advise import advise, answer

    question = (arguments.tables, arguments.gpu, arguments.n, arguments.host_memory)
    if arguments.json:
        command_line.print_json(answer(*question, arguments.products))
    else:
        print(advise(*question, arguments.products))


def _compare(arguments: argparse.Namespace) -> int:
    """Print a comparison of recordings; return its exit status, see `add_compare`."""
    from itertools import combinations

    from analysis.stats import significance
    from analysis.trust import comparison, comparison_text
    from measurement.recording.recording import read

    threshold, csv = arguments.threshold or significance.THRESHOLD, arguments.csv
    if csv and not csv.parent.is_dir():
        raise StudyError(f"--csv {csv}: there is no folder {csv.parent}; create it first")
    paths = arguments.recordings, arguments.against
    if not paths[1]:
        if len(paths[0]) != 2:
            raise StudyError("give two recordings, or A1 A2 --against B1 B2")
        paths = paths[0][:1], paths[0][1:]
    (a, *more_a), (b, *more_b) = ([read(path) for path in side] for side in paths)
    more = (more_a, more_b)
    if more_a or more_b:
        for one, other in combinations([a, *more_a, b, *more_b], 2):
            if comparison.identical(one, other):
                raise StudyError(f"{one.path} and {other.path} contain the same samples; name one")
    frame = comparison.compare(a, b, threshold, more)
    if csv:
        write_atomic(csv, frame.to_csv(index=False))
    status = comparison.status(frame, arguments.hardware)
    if arguments.json:
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        facts = {"a": str(a.path), "b": str(b.path), "comparisons": rows}
        others = {"more_a": more_a, "more_b": more_b}
        command_line.print_json(
            facts | {name: [str(each.path) for each in added] for name, added in others.items()}
        )
        return status
    if arguments.format == "junit":
        print(comparison_text.junit(frame, arguments.hardware), flush=True)
        return status
    if comparison.identical(a, b):
        print(f"A and B contain the same samples: {a.path} and {b.path}", flush=True)
        return 0
    if arguments.format == "github":
        print("\n".join(comparison_text.annotations(frame, arguments.hardware)), flush=True)
        return status
    lines = [f"{name}: {', '.join(map(str, side))}" for name, side in zip("AB", paths, strict=True)]
    lines += ["", comparison_text.summary(frame, threshold)]
    lines += [f"note: {note}" for note in comparison_text.notes(a, b, frame, more)]
    shown = comparison_text.with_state(frame, a, b) if arguments.telemetry else frame
    lines += comparison_text.table(shown)
    lines += comparison_text.causes(frame, a, b)
    print("\n".join(lines), flush=True)
    return status


def main() -> int | None:
    """Run the command and return its exit status; raise StudyError."""
    return command_line.run(_parser())


if __name__ == "__main__":
    sys.exit(exit_status(main))
