"""Every table of the study: each is computed once, and used where it is needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.audit import text as audit_text
from analysis.cpu import claims as cpu_claims
from analysis.cpu import hosts, split
from analysis.cpu import ladder as cpu_ladder
from analysis.cpu import roofline as cpu_roofline
from analysis.data import ceilings
from analysis.data import recordings as data
from analysis.data.published_claims import Statement
from analysis.decide import predictions
from analysis.kernels import claims, counts, glance, ladder, limits, machine_code, roofline
from analysis.models import ratios
from analysis.models import tables as model_tables
from analysis.overview import answers, cards, gains
from analysis.published import source_tables, systems
from analysis.trust import agreement, interference, overheads, telemetry, threats
from kernels.build import BuildResult


@dataclass(frozen=True)
class Published:
    """What the sources print: times, the systems that they describe, figures of V's text."""

    times: pd.DataFrame
    systems: list[systems.System]
    statements: Mapping[str, Statement]


def compute(
    paths: Mapping[str, Path],
    published: Published,
    built: list[BuildResult],
    counted: list[Path],
    progress: Callable[[str], None],
) -> dict[str, pd.DataFrame]:
    """Return every table by its name.

    `paths` are the folders of the recordings by id, `built` the cubins of this tree, `counted` the
    tables of memory accesses that `python -m kernels count` wrote. Raises StudyError naming the
    recording that cannot be used.
    """
    loaded = data.load(paths)
    sources = data.sources(loaded)
    accesses = counts.read(counted)
    progress(f"tables of {', '.join(s.label for s in sources) or 'no recording'}")
    twins = source_tables.tables(published.times, sources)
    frames = {f"table{number}": frame for number, frame in twins.items()}
    frames |= {
        "summary": data.summary_table(sources),
        "gains": gains.gains_table(sources),
        "recordings": data.recordings_table(sources),
        "checks": data.checks_table(loaded),
        "builds": data.builds_table(loaded, built),
        "environment": data.environment_table(loaded),
        "telemetry": telemetry.telemetry_table(sources),
        "back_to_back": overheads.back_to_back_table(sources),
        "cold_starts": overheads.cold_starts_table(sources),
        "ceilings": ceilings.ceilings_table(sources),
        "phases": overheads.phases_table(sources),
        "interference": interference.interference_table(sources),
        "counts": counts.counts_table(accesses, sources),
        "counts_by_line": counts.counts_by_line_table(accesses),
        "limits": limits.limits_table(sources),
        "cpu_hosts": hosts.hosts_table(sources),
        "cpu_clock": hosts.clock_table(sources),
        "cpu_ladder": cpu_ladder.cpu_ladder_table(sources),
        "cpu_split": split.cpu_split_table(published.times, sources),
    }
    frames["cards"] = cards.cards_table(sources, frames["summary"])
    frames["agreement"], frames["agreement_cells"] = agreement.agreement_tables(sources, frames)
    frames["systems"] = systems.systems_table(published.systems, frames)
    frames["threats"] = threats.threats_table(frames)
    frames["cpu_roofline"] = cpu_roofline.cpu_roofline_table(
        sources, frames["ceilings"], frames["cpu_hosts"]
    )
    code = machine_code.machine_code_table(
        frames["builds"], data.instructions_table(loaded, built), frames["counts"]
    )
    claimed = [
        claims.claims_table(sources, code, frames["counts"]),
        cpu_claims.cpu_claims_table(sources, frames["cpu_split"]),
    ]
    frames |= {
        "machine_code": code,
        "ladder": ladder.ladder_table(sources, code),
        "roofline": roofline.roofline_table(sources, frames["ceilings"], frames["counts"]),
        "claims": pd.concat(claimed, ignore_index=True),
    }
    frames |= model_tables.model_tables(published.times, sources, code, progress)
    frames["model_ratios"] = ratios.ratios_table(sources, frames["models"])
    progress("break-even sizes")
    frames |= predictions.decision_tables(sources)
    frames |= {"glance": glance.glance_table(frames), "answers": answers.answers_table(frames)}
    progress("audit of the published numbers")
    return frames | audit_text.audit_tables(published.times, published.statements)
