"""What the report's part on models shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.data.published import SOURCE as PUBLISHED
from analysis.model_findings import model_findings
from analysis.model_views import (
    comparison_table,
    held_out_table,
    parameters_table,
    ratios_table,
)
from analysis.models.definitions import MODELS
from analysis.results import Results, Subject

_TABLES = {
    "comparison": comparison_table,
    "parameters": parameters_table,
    "held_out": held_out_table,
    "ratios": ratios_table,
}


def model_section(
    results: Results, gpus: Sequence[Subject], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the models, and what they say of the published times, then of every GPU.

    `names` are the anchors of the GPUs by label.
    """
    published = (PUBLISHED, PUBLISHED, "published Tables 3–5", None)
    measured = [(gpu.label, names[gpu.label], gpu.marked_title, gpu) for gpu in gpus]
    return {
        "model_list": list(MODELS.values()),
        "models_of": [
            {
                "source": source,
                "name": name,
                "subject": subject,
                "sentences": model_findings(results, source),
                "tables": {
                    key: make(results, source, title, f"table-model-{key.replace('_', '-')}-{name}")
                    for key, make in _TABLES.items()
                },
            }
            for source, name, title, subject in (published, *measured)
        ],
    }
