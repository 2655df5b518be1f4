"""What the report's part on CPUs shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis import cpu_views, views
from analysis.cpu_findings import host_findings
from analysis.cpu_gain_findings import gain_findings, published_split
from analysis.results import Results, Subject


def cpu_section(
    results: Results, hosts: Sequence[Subject], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the template of this part needs, by name.

    `hosts` has one subject of each recording, `names` the anchors by label.
    """
    makers = {
        "ladder": cpu_views.ladder_table,
        "roofline": cpu_views.roofline_table,
        "cells": views.cpu_table,
    }
    gains = gain_findings(results)
    return {
        "cpu_hosts": cpu_views.hosts_table(results, hosts, "table-cpu-machines"),
        "cpu_findings": host_findings(results, hosts),
        "cpu_tables": {
            host.label: {
                name: make(results, host, f"table-cpu-{name}-{names[host.label]}")
                for name, make in makers.items()
            }
            for host in hosts
        },
        "gain_findings": gains,
        "gain_tables": {
            found.subject.label: cpu_views.speedup_tables(
                results, found.subject, f"table-speedups-{names[found.subject.label]}"
            )
            for found in gains
        },
        "split_tables": {
            found.subject.label: cpu_views.split_table(
                results, found.subject, f"table-split-{names[found.subject.label]}"
            )
            for found in gains
        },
        "published_split": published_split(results),
    }
