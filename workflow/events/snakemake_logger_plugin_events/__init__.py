"""Snakemake's log as JSON lines for `workflow/run.py`: ``snakemake --logger events``.

They go to the file descriptor that the environment variable `MATMUL_STUDY_EVENTS` names.
"""

import json
import os
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

# Of each event, what is passed on.
_FIELDS = {
    "run_info": ["stats"],
    "job_info": ["jobid", "rule_name", "rule_msg", "log"],
    "job_finished": ["job_id"],
    "job_error": ["jobid", "rule_name", "log"],
    "error": [],
}


class LogHandler(LogHandlerBase):
    """Writes the events of jobs, one JSON object a line; the log of Snakemake stays as it is."""

    def __post_init__(self) -> None:
        self._stream = os.fdopen(int(os.environ["MATMUL_STUDY_EVENTS"]), "w", closefd=False)

    def emit(self, record: LogRecord) -> None:
        """Write the record if it is one of those events."""
        event = str(getattr(record, "event", ""))
        if event in _FIELDS:
            fields = {name: getattr(record, name, None) for name in _FIELDS[event]}
            text = json.dumps({"event": event, **fields, "text": record.getMessage()}, default=str)
            print(text, file=self._stream, flush=True)

    @property
    def writes_to_stream(self) -> bool:
        """It leaves standard error to Snakemake."""
        return False

    @property
    def writes_to_file(self) -> bool:
        """It has no file of its own."""
        return False

    @property
    def has_filter(self) -> bool:
        """It chooses the records itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """It formats the records itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It shows no graph."""
        return False
