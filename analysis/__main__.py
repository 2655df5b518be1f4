"""Command line of the analysis: ``python -m analysis tables | fit | figures | report``."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis import fits, gains, published, study, tables
from measurement.errors import StudyError, exit_status
from measurement.files import write_atomic


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str, *options: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text)
        for option in (*options, "out"):
            added.add_argument(f"--{option}", required=True, type=Path, help=_HELP[option])
        if name != "figures":
            added.add_argument(
                "--recording",
                action="append",
                default=[],
                metavar="ID=PATH",
                help="a recording's id and folder; once for each",
            )
        return added

    tables_command = command(
        "tables", "write the tables of what was published and measured", "published"
    )
    tables_command.add_argument(
        "--cubins",
        type=Path,
        nargs="*",
        default=[],
        help="cubins built from this tree, to stand in builds.csv",
    )
    command("fit", "fit the source's model to published and measured times", "published")
    command("figures", "draw the figures from the tables", "tables")
    command("report", "write the report from tables and figures", "tables", "figures", "template")
    return parser


_HELP = {
    "published": "csv of the published times",
    "tables": "folder that holds the tables",
    "figures": "folder that holds the figures",
    "template": "folder that holds the report's template",
    "out": "folder to write to (report: the file)",
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
    recordings: Mapping[str, Path], published_csv: Path, cubins: list[Path], out: Path
) -> None:
    """Write every table but the fits' to the folder `out`."""
    printed = published.read(published_csv)
    loaded = study.load(recordings)
    sources = study.sources(loaded)
    _progress(
        f"tables: medians and gains of {', '.join(s.label for s in sources) or 'no recording'}"
    )
    frames = {f"table{k}": frame for k, frame in tables.tables(printed, sources).items()}
    frames |= {
        "summary": study.summary_table(sources),
        "gains": gains.gains_table(sources),
        "recordings": study.recordings_table(sources),
        "checks": study.checks_table(loaded),
        "builds": study.builds_table(loaded, cubins),
        "environment": study.environment_table(loaded),
    }
    _write(frames, out)


def write_fits(recordings: Mapping[str, Path], published_csv: Path, out: Path) -> None:
    """Write the fits of M0 and their residuals to the folder `out`."""
    printed = published.read(published_csv)
    sources = study.sources(study.load(recordings))
    fitted, residuals = fits.fit_tables(printed, sources, _progress)
    _write({"m0_fit": fitted, "m0_residuals": residuals}, out)


def _write(frames: Mapping[str, pd.DataFrame], out: Path) -> None:
    """Write every frame as CSV in full precision; a missing value is an empty cell."""
    for name, frame in frames.items():
        write_atomic(out / f"{name}.csv", frame.to_csv(index=False))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command; raises StudyError.

    Figures and the report are imported by the commands that need them: tables and fits do without
    the plotting libraries.
    """
    arguments = _parser().parse_args()
    try:
        if arguments.command == "figures":
            from analysis.figures import write_figures

            write_figures(arguments.tables, arguments.out)
            return
        paths = recording_paths(arguments.recording)
        if arguments.command == "tables":
            write_tables(paths, arguments.published, arguments.cubins, arguments.out)
        elif arguments.command == "fit":
            write_fits(paths, arguments.published, arguments.out)
        else:
            from analysis.report import render

            render(arguments.tables, arguments.figures, paths, arguments.template, arguments.out)
    except OSError as error:
        raise StudyError(f"{error.filename}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(exit_status(main))
