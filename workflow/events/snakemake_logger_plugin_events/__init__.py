"""Snakemake logger plugin ``--logger events``: job events as JSON lines for `workflow/run.py`.

They are written to the file descriptor in the environment variable `MATMUL_STUDY_EVENTS`.
"""

import json
import os
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

# Fields of each event.
_FIELDS = {
    "run_info": ["stats"],
    "job_info": ["jobid", "rule_name", "rule_msg", "log"],
    "job_finished": ["job_id"],
    "job_error": ["jobid", "rule_name", "log"],
    "error": [],
}


class LogHandler(LogHandlerBase):
    """Writes job events, one JSON object per line; Snakemake's own log is unchanged."""

    writes_to_stream = writes_to_file = needs_rulegraph = False
    has_filter = has_formatter = True

    def __post_init__(self) -> None:
        self._stream = os.fdopen(int(os.environ["MATMUL_STUDY_EVENTS"]), "w", closefd=False)

    def emit(self, record: LogRecord) -> None:
        """Write the record if it is a job event."""
        event = str(getattr(record, "event", ""))
        if event in _FIELDS:
            fields = {name: getattr(record, name, None) for name in _FIELDS[event]}
            text = json.dumps({"event": event, **fields, "text": record.getMessage()}, default=str)
            print(text, file=self._stream, flush=True)
