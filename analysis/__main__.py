"""Command line of the analysis; ``python -m analysis --help`` lists its commands.

Every command imports what it needs: `advise` answers at once, for it does without the libraries of
the others.
"""

import argparse
import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from measurement.errors import StudyError, exit_status
from measurement.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

    from analysis.study import Source


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str, *options: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text)
        for option in (*options, "out"):
            added.add_argument(f"--{option}", required=True, type=Path, help=_HELP[option])
        if name not in ("audit", "figures"):
            added.add_argument(
                "--recording",
                action="append",
                default=[],
                metavar="ID=PATH",
                help="a recording's id and folder; once for each",
            )
        return added

    tables_command = command(
        "tables", "write the tables of what was published and measured", "published", "systems"
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
    command("fit", "fit and compare models of published and measured times", "published")
    command("decide", "fit what tells from which order on a GPU pays")
    command("audit", "hold the published numbers against each other", "published", "statements")
    command("figures", "draw the figures from the tables", "tables")
    command("report", "write the report from tables and figures", "tables", "figures", "template")
    checking = commands.add_parser("check", help="walk every number of a report back to its table")
    checking.add_argument("report", type=Path, help="the report")
    checking.add_argument("--tables", required=True, type=Path, help=_HELP["tables"])
    command("crate", "pack the study as an RO-Crate", "config", "tables", "report")
    _add_advise(commands.add_parser("advise", help="tell what a product takes on a GPU"))
    _add_compare(commands.add_parser("compare", help="tell whether two recordings agree"))
    return parser


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare the median times of two recordings cell by cell. The exit status is 0 where B is "
        "nowhere slower than A, 1 where it is, 2 for an error."
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
        "--telemetry",
        action="store_true",
        help="list the cells whose total times are apart, with the state of the cards",
    )
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write every comparison to FILE")


def _add_advise(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Predict what multiplying two float32 matrices of order N takes on a GPU of the report, "
        "copies included, what it gains over the CPU, and from which order on."
    )
    parser.add_argument("--gpu", required=True, metavar="ID", help="a GPU of the report")
    parser.add_argument("--n", required=True, type=int, metavar="N", help="order of the matrices")
    parser.add_argument(
        "--host-memory",
        choices=("pageable", "pinned"),
        default="pageable",
        help="what the matrices lie in (default: %(default)s, which malloc returns)",
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=Path("results/tables"),
        help="folder that holds the tables (default: %(default)s)",
    )


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


def recording_paths(arguments: list[str]) -> dict[str, Path]:
    """Return the folders by id of ``ID=PATH`` arguments; raises StudyError for what is none."""
    paths: dict[str, Path] = {}
    for argument in arguments:
        identifier, separator, path = argument.partition("=")
        if not (identifier and separator and path):
            raise StudyError(
                f"--recording {argument!r}: must be ID=PATH, like h100=data/recordings/h100"
            )
        if identifier in paths:
            raise StudyError(
                f"--recording {argument!r}: the id {identifier!r} is given twice; rename one"
            )
        paths[identifier] = Path(path)
    return paths


def write_tables(
    recordings: Mapping[str, Path],
    published_csv: Path,
    systems_csv: Path,
    cubins: list[Path],
    counted: list[Path],
    out: Path,
) -> None:
    """Write every table but the fits' to the folder `out`; `counted`: the tables of accesses."""
    from analysis import (
        agreement,
        cards,
        counts,
        gains,
        limits,
        neighbours,
        published,
        study,
        systems,
        tables,
        threats,
        trust,
    )
    from kernels.build import read_result

    printed, listed = published.read(published_csv), systems.read(systems_csv)
    loaded = study.load(recordings)
    sources = study.sources(loaded)
    accesses = counts.read(counted)
    built = [read_result(path) for path in cubins]
    _progress(
        f"tables: medians and gains of {', '.join(s.label for s in sources) or 'no recording'}"
    )
    frames = {f"table{k}": frame for k, frame in tables.tables(printed, sources).items()}
    frames |= {
        "summary": study.summary_table(sources),
        "gains": gains.gains_table(sources),
        "cards": cards.cards_table(sources),
        "recordings": study.recordings_table(sources),
        "checks": study.checks_table(loaded),
        "builds": study.builds_table(loaded, built),
        "environment": study.environment_table(loaded),
        "telemetry": trust.telemetry_table(sources),
        "batches": trust.batches_table(sources),
        "cold_starts": trust.cold_starts_table(sources),
        "ceilings": trust.ceilings_table(sources),
        "phases": trust.phases_table(sources),
        "neighbours": neighbours.neighbours_table(sources),
        "counts": counts.counts_table(accesses, sources),
        "counts_by_line": counts.counts_by_line_table(accesses),
        "limits": limits.limits_table(sources),
        "systems": systems.systems_table(listed, sources),
    }
    frames["agreement"], frames["agreement_cells"] = agreement.agreement_tables(sources)
    frames["threats"] = threats.threats_table(frames)
    frames |= _cpu_tables(printed, sources, frames["ceilings"])
    frames |= _kernel_tables(sources, frames, study.instructions_table(loaded, built))
    _write(frames, out)


def _cpu_tables(
    printed: "pd.DataFrame", sources: "list[Source]", ceilings: "pd.DataFrame"
) -> "dict[str, pd.DataFrame]":
    """Return what is told of hosts, and what tuning the CPU gains."""
    from analysis import cpu_hosts, cpu_ladder, cpu_roofline, cpu_split

    hosts = cpu_hosts.hosts_table(sources)
    return {
        "cpu_hosts": hosts,
        "cpu_clock": cpu_hosts.clock_table(sources),
        "cpu_ladder": cpu_ladder.cpu_ladder_table(sources),
        "cpu_roofline": cpu_roofline.cpu_roofline_table(sources, ceilings, hosts),
        "cpu_split": cpu_split.cpu_split_table(printed, sources),
    }


def _kernel_tables(
    sources: "list[Source]", frames: "Mapping[str, pd.DataFrame]", instructions: "pd.DataFrame"
) -> "dict[str, pd.DataFrame]":
    """Return what follows from times, builds and counts of accesses together."""
    import pandas as pd

    from analysis import claims, cpu_claims, ladder, machine_code, roofline

    accesses = frames["counts"]
    code = machine_code.machine_code_table(frames["builds"], instructions, accesses)
    claimed = claims.claims_table(sources, code, accesses)
    of_cpus = cpu_claims.cpu_claims_table(sources, frames["cpu_split"])
    return {
        "machine_code": code,
        "ladder": ladder.ladder_table(sources, code),
        "roofline": roofline.roofline_table(sources, frames["ceilings"], accesses),
        "claims": pd.concat([claimed, of_cpus], ignore_index=True),
    }


def write_fits(recordings: Mapping[str, Path], published_csv: Path, out: Path) -> None:
    """Write what the models say of published and of recorded times to the folder `out`."""
    from analysis import counts, machine_code, model_ratios, model_tables, published, study

    printed = published.read(published_csv)
    loaded = study.load(recordings)
    sources = study.sources(loaded)
    uncounted = counts.counts_table(counts.read([]), [])
    builds, instructions = study.builds_table(loaded), study.instructions_table(loaded)
    code = machine_code.machine_code_table(builds, instructions, uncounted)
    frames = model_tables.model_tables(printed, sources, code, _progress)
    frames["model_ratios"] = model_ratios.ratios_table(sources, frames["models"])
    _write(frames, out)


def write_decisions(recordings: Mapping[str, Path], out: Path) -> None:
    """Write copies, curves, break-even orders and predictions to the folder `out`."""
    from analysis import predictions, study

    sources = study.sources(study.load(recordings))
    _progress(f"break-even orders of {', '.join(s.label for s in sources) or 'no recording'}")
    _write(predictions.decision_tables(sources), out)


def write_audit(published_csv: Path, statements_csv: Path, out: Path) -> None:
    """Write the tables of the audit of the published numbers to the folder `out`."""
    from analysis import audit_text, published, statements

    printed, said = published.read(published_csv), statements.read(statements_csv)
    _progress("audit: the published numbers, held against each other")
    _write(audit_text.audit_tables(printed, said), out)


def compare_recordings(
    a: Path, b: Path, threshold: float | None, everything: bool, telemetry: bool, csv: Path | None
) -> int:
    """Print how the recording in `b` agrees with that in `a`; return 1 if it is slower, else 0.

    With `telemetry`, cells that do not agree are listed with the state of both cards. Every
    comparison is written to the file `csv` if there is one.
    """
    from analysis import agreement, compare, judgement
    from measurement.recording import read

    threshold = threshold or judgement.THRESHOLD
    recordings = read(a), read(b)
    frame = compare.compare(*recordings, threshold)
    if csv:
        write_atomic(csv, frame.to_csv(index=False))
    lines = [f"{side}: {recording.path}" for side, recording in zip("AB", recordings, strict=True)]
    lines += [f"note: {note}" for note in compare.notes(*recordings)]
    lines += ["", compare.table(frame, everything), "", compare.summary(frame, threshold)]
    lines += [agreement.agreement_line(frame)]
    if telemetry:
        lines += ["", agreement.apart_with_telemetry(frame, *recordings)]
    print("\n".join(lines), flush=True)
    return int((frame["verdict"] == "slower").any())


def check_report(report: Path, tables_dir: Path) -> int:
    """Print what of a report is not what the tables have; return 1 if anything is, else 0."""
    from analysis.check import check, summary
    from analysis.results import Results

    try:
        page = report.read_text()
    except OSError as error:
        raise StudyError(
            f"{report} cannot be read ({error.strerror}); make it with `make report`"
        ) from None
    shown, faults = check(page, Results(tables_dir))
    print("\n".join([*faults, summary(shown, faults)]), flush=True)
    return int(bool(faults))


def _write(frames: "Mapping[str, pd.DataFrame]", out: Path) -> None:
    """Write every frame as CSV; a missing value is an empty cell."""
    for name, frame in frames.items():
        rounded = {c: _significant(frame[c]) for c in frame.select_dtypes("float").columns}
        write_atomic(out / f"{name}.csv", frame.assign(**rounded).to_csv(index=False))


def _significant(values: "pd.Series") -> "pd.Series":
    """Return `values` with six significant digits; whole numbers, which may be counts, with all.

    No interval is narrower than that, and digits beyond are noise that cannot be compressed.
    """
    return values.map(lambda x: x if x % 1 == 0 else float(f"{x:.5e}"), na_action="ignore")


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int | None:
    """Run the command; raises StudyError. `compare` and `check` return a status, see there."""
    arguments = _parser().parse_args()
    if arguments.command == "advise":
        from analysis.advise import advise

        print(advise(arguments.tables, arguments.gpu, arguments.n, arguments.host_memory))
        return None
    if arguments.command == "compare":
        return compare_recordings(
            arguments.a,
            arguments.b,
            arguments.threshold,
            arguments.all,
            arguments.telemetry,
            arguments.csv,
        )
    if arguments.command == "check":
        return check_report(arguments.report, arguments.tables)
    if arguments.command == "figures":
        from analysis.figures import write_figures

        write_figures(arguments.tables, arguments.out)
        return None
    if arguments.command == "audit":
        write_audit(arguments.published, arguments.statements, arguments.out)
        return None
    paths = recording_paths(arguments.recording)
    if arguments.command == "tables":
        csvs = (arguments.published, arguments.systems)
        write_tables(paths, *csvs, arguments.cubins, arguments.counts, arguments.out)
    elif arguments.command == "fit":
        write_fits(paths, arguments.published, arguments.out)
    elif arguments.command == "decide":
        write_decisions(paths, arguments.out)
    elif arguments.command == "crate":
        from analysis.crate import Study, write_crate
        from measurement.provenance import git

        places = (arguments.config, paths, arguments.tables, arguments.report)
        write_crate(Study(*places, git()["commit"]), arguments.out)
    else:
        from analysis.citation import Maker
        from analysis.report import render
        from measurement.provenance import git

        maker = Maker(shlex.join(["python", "-m", "analysis", *sys.argv[1:]]), **git())
        folders = (arguments.tables, arguments.figures, paths, arguments.template)
        render(*folders, arguments.out, maker)
    return None


if __name__ == "__main__":
    sys.exit(exit_status(main))
