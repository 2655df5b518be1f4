"""Command line of the analysis; ``python -m analysis --help`` lists its commands.

Every command imports what it needs: `advise` answers at once, for it does without the libraries of
the others.
"""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from base.command_line import CommandParser, Commands, add_command, commands_of
from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.paths import RESULTS

_TABLES = RESULTS / "tables"
_OF_TABLES = "folder that holds the tables (default: results/tables)"


def _parser() -> CommandParser:
    parser = CommandParser(prog="python -m analysis", description="What recordings say.")
    commands = commands_of(parser)

    def command(
        name: str, text: str, run: Callable[[argparse.Namespace], None], *options: str
    ) -> CommandParser:
        added = add_command(commands, name, text, run)
        for option in (*options, "out"):
            added.add_argument(f"--{option}", required=True, type=Path, help=_HELP[option])
        if name != "figures":
            added.add_argument(
                "--recording",
                action="append",
                default=[],
                metavar="ID=PATH",
                help="a recording's id and folder; once for each, and for each further session",
            )
        return added

    tables_command = command(
        "tables", "write every table", _tables, "published", "systems", "statements"
    )
    tables_command.add_argument(
        "--cubins",
        type=Path,
        nargs="*",
        default=[],
        help="cubins built from this tree, to stand in builds.csv",
    )
    tables_command.add_argument(
        "--counts",
        type=Path,
        nargs="*",
        default=[],
        help="tables of memory accesses by `python -m kernels count`, to stand in counts.csv",
    )
    told = add_command(commands, "answers", "print the three answers", _answers)
    told.add_argument("--tables", default=_TABLES, type=Path, help=_OF_TABLES)
    for added in (
        command("figures", "draw the figures from the tables", _figures, "tables"),
        command("report", "write the report", _report, "tables", "figures", "template"),
        told,
    ):
        added.add_argument("--focus", metavar="ID", help="the card that the report is about")
    add_command(
        commands, "schema", "print every table's columns, types and units as Markdown", _schema
    )
    add_command(commands, "glossary", "print the glossary as Markdown", _glossary)
    crate = command("crate", "pack the study, or recordings alone, as an RO-Crate", _crate)
    for option in ("config", "tables", "report"):
        crate.add_argument(f"--{option}", type=Path, help=f"{_HELP[option]}; all three: the study")
    for add in (add_check, add_advise, add_compare):
        add(commands)
    return parser


def add_check(commands: Commands) -> None:
    """Add the command that walks every number of a report back to its table."""
    parser = add_command(
        commands,
        "check",
        "walk every number of a report back to its table",
        _check,
        "The exit status is 1 where a number is not that of its table.",
        ["gemm-study check", "gemm-study check results/report.html --templates report"],
    )
    parser.add_argument(
        "report",
        type=Path,
        nargs="?",
        default=RESULTS / "report.html",
        help="the report (default: results/report.html)",
    )
    parser.add_argument("--tables", metavar="DIR", default=_TABLES, type=Path, help=_OF_TABLES)
    parser.add_argument(
        "--templates", metavar="DIR", type=Path, help="folder of templates, to check prose too"
    )


def add_compare(commands: Commands) -> None:
    """Add the command that compares two recordings."""
    parser = add_command(
        commands,
        "compare",
        "tell whether two recordings agree",
        _compare,
        "Their median times are compared cell by cell. The exit status is 0 where B is nowhere "
        "slower than A, 1 where it is, 2 for an error.",
        [
            "gemm-study compare data/recordings/h100-sxm data/recordings/h100-sxm-again",
            "gemm-study compare A B --threshold 0.05 --csv differences.csv",
        ],
    )
    parser.add_argument("a", metavar="A", type=Path, help="folder of the recording to compare with")
    parser.add_argument("b", metavar="B", type=Path, help="folder of the recording in question")
    parser.add_argument(
        "--threshold",
        type=_threshold,
        help="relative difference from which on it matters (default: that of the report)",
    )
    parser.add_argument("--all", action="store_true", help="show also what is the same")
    parser.add_argument(
        "--tables",
        metavar="DIR",
        type=Path,
        help="tables of a report, whose GPUs with several sessions tell how far these lie apart",
    )
    parser.add_argument(
        "--telemetry",
        action="store_true",
        help="add clock, temperature, power and throttling of both GPUs to each row",
    )
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write every comparison to FILE")


def add_advise(commands: Commands) -> None:
    """Add the command that predicts what a product takes."""
    parser = add_command(
        commands,
        "advise",
        "tell what a product takes on a GPU of the report",
        _advise,
        "Of two float32 matrices of order N: its time with copies and its interval, what it gains "
        "over the CPU, and from which order on.",
        [
            "gemm-study advise --gpu h100 --n 3000",
            "gemm-study advise --gpu h100 --n 3000 --host-memory pinned",
        ],
    )
    parser.add_argument("--gpu", required=True, metavar="ID", help="a GPU of the report")
    parser.add_argument("--n", required=True, type=int, metavar="N", help="order of the matrices")
    parser.add_argument(
        "--host-memory",
        choices=("pageable", "pinned"),
        default="pageable",
        help="what the matrices lie in (default: %(default)s, which malloc returns)",
    )
    parser.add_argument("--tables", metavar="DIR", type=Path, default=_TABLES, help=_OF_TABLES)


def _threshold(text: str) -> float:
    """Parse a relative difference above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0; name one like 0.02")
    return value


_HELP = {
    "published": "csv of the published times",
    "statements": "csv of the figures in the text of source V",
    "systems": "csv of the sources' systems",
    "tables": "folder that holds the tables",
    "figures": "folder that holds the figures",
    "template": "folder that holds the report's template",
    "config": "the configuration in force",
    "report": "the report",
    "out": "folder to write to (report, crate: the file)",
}


def outcomes(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return ``ID=PATH`` arguments with folders alone, and by id why a recording is missing.

    A file stands for what became of a GPU of a cluster: it says where the recording is, or why
    there is none. Raises StudyError.
    """
    places, missing = [], {}
    for argument in arguments:
        identifier, _, path = argument.partition("=")
        if path.endswith(".json"):
            try:
                known = json.loads(Path(path).read_text())
            except (OSError, ValueError) as error:
                raise StudyError(f"{path} cannot be read ({error}); measure it again") from None
            if "missing" in known:
                missing[identifier] = str(known["missing"])
                continue
            argument = f"{identifier}={known['recording']}"
        places.append(argument)
    return places, missing


def recording_paths(arguments: list[str]) -> dict[str, list[Path]]:
    """Return the folders by id of ``ID=PATH`` arguments; raises StudyError for what is none.

    Folders of one id are sessions of one recording.
    """
    paths: dict[str, list[Path]] = {}
    for argument in arguments:
        identifier, separator, path = argument.partition("=")
        if not (identifier and separator and path):
            raise StudyError(
                f"--recording {argument!r}: must be ID=PATH, like h100=data/recordings/h100"
            )
        if Path(path) in paths.setdefault(identifier, []):
            raise StudyError(f"--recording {argument!r}: is given twice; leave one out")
        paths[identifier].append(Path(path))
    return paths


def write_tables(
    recordings: Mapping[str, Sequence[Path]],
    published_csv: Path,
    systems_csv: Path,
    statements_csv: Path,
    cubins: list[Path],
    counted: list[Path],
    out: Path,
    missing: Mapping[str, str] | None = None,
) -> None:
    """Write every table to the folder `out`; `counted`: the tables of accesses.

    `missing`: by id, why there is no recording of a GPU.
    """
    from analysis import tables
    from analysis.data import published, published_claims, store
    from analysis.published import systems
    from kernels.cubins.compile import read_result

    published_data = tables.Published(
        published.read(published_csv),
        systems.read(systems_csv),
        published_claims.read(statements_csv),
    )
    built = [read_result(path) for path in cubins]
    frames = tables.compute(recordings, published_data, built, counted, _progress, missing)
    store.write(frames, out)


def compare_recordings(
    a: Path,
    b: Path,
    threshold: float | None,
    everything: bool,
    telemetry: bool,
    csv: Path | None,
    tables: Path | None,
) -> int:
    """Print a comparison of the recordings `a` and `b`; return 1 if `b` is slower anywhere, else 0.

    `telemetry` adds the state of both GPUs to each row. `csv` is a file for all comparisons.
    `tables` of a report provide the variance between sessions for the verdicts.
    """
    from analysis.data.store import Store
    from analysis.stats import significance
    from analysis.stats.sessions import SessionVariance
    from analysis.trust import comparison, comparison_text
    from measurement.recording.recording import read

    threshold = threshold or significance.THRESHOLD
    recordings = read(a), read(b)
    known = SessionVariance.of(Store(tables)["sessions"]) if tables else None
    frame = comparison.compare(*recordings, threshold, known)
    if csv:
        write_atomic(csv, frame.to_csv(index=False))
    lines = [f"{side}: {recording.path}" for side, recording in zip("AB", recordings, strict=True)]
    lines += [f"note: {note}" for note in comparison_text.notes(*recordings, frame)]
    shown = comparison_text.with_state(frame, *recordings) if telemetry else frame
    lines += ["", comparison_text.table(shown, everything)]
    lines += ["", comparison_text.summary(frame, threshold)]
    print("\n".join(lines), flush=True)
    return int((frame["verdict"] == "slower").any())


def check_report(report: Path, tables_dir: Path, templates: Path | None) -> int:
    """Print what of a report is not what the tables have; return 1 if anything is, else 0.

    The last line counts the words before the appendix.
    """
    from analysis.render.check import check, words

    try:
        page = report.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text in UTF-8"
        raise StudyError(
            f"{report} cannot be read ({reason}); make it with `make report`"
        ) from None
    faults = check(page, tables_dir, templates)
    print("\n".join(faults or ["every number is that of its table"]))
    print(f"{words(page)} words before the appendix", flush=True)
    return int(bool(faults))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _tables(arguments: argparse.Namespace) -> None:
    places, missing = outcomes(arguments.recording)
    paths = recording_paths(places)
    csvs = (arguments.published, arguments.systems, arguments.statements)
    write_tables(paths, *csvs, arguments.cubins, arguments.counts, arguments.out, missing)


def _figures(arguments: argparse.Namespace) -> None:
    from analysis.render.figures import write_figures

    write_figures(arguments.tables, arguments.out, arguments.focus)


def _report(arguments: argparse.Namespace) -> None:
    from analysis.archive.citation import Maker
    from analysis.data.sessions import folders_by_session
    from analysis.render.page import render
    from measurement.recorder.provenance import git

    places, _ = outcomes(arguments.recording)
    recordings = folders_by_session(recording_paths(places))
    maker = Maker(shlex.join(["python", "-m", "analysis", *sys.argv[1:]]), **git())
    folders = (arguments.tables, arguments.figures, recordings, arguments.template)
    render(*folders, arguments.out, arguments.focus, maker)


def _crate(arguments: argparse.Namespace) -> None:
    from analysis.archive.crate import Recordings, Study, write_crate
    from analysis.data.sessions import folders_by_session
    from measurement.recorder.provenance import git

    places, _ = outcomes(arguments.recording)
    recordings = folders_by_session(recording_paths(places))
    config, tables, report = arguments.config, arguments.tables, arguments.report
    if config and tables and report:
        study = Study(config, recordings, tables, report, git()["commit"])
        write_crate(study, arguments.out)
    elif recordings and not (config or tables or report):
        write_crate(Recordings(recordings), arguments.out)
    else:
        raise StudyError(
            "crate: name --config, --tables and --report for a study, or a --recording alone"
        )


def _answers(arguments: argparse.Namespace) -> None:
    from analysis.render.terminal import answers

    print(answers(arguments.tables, arguments.focus))


def _schema(_: argparse.Namespace) -> None:
    from analysis.schema import documentation

    print(documentation(), end="")


def _glossary(_: argparse.Namespace) -> None:
    from analysis.render.glossary import documentation

    print(documentation(), end="")


def _check(arguments: argparse.Namespace) -> int:
    return check_report(arguments.report, arguments.tables, arguments.templates)


def _advise(arguments: argparse.Namespace) -> None:
    from analysis.decide.advise import advise

    print(advise(arguments.tables, arguments.gpu, arguments.n, arguments.host_memory))


def _compare(arguments: argparse.Namespace) -> int:
    return compare_recordings(
        arguments.a,
        arguments.b,
        arguments.threshold,
        arguments.all,
        arguments.telemetry,
        arguments.csv,
        arguments.tables,
    )


def main() -> int | None:
    """Run the command; raises StudyError. `compare` and `check` return a status, see there."""
    arguments = _parser().parse_args()
    status: int | None = arguments.run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(exit_status(main))
