"""Snakemake logger plugin ``--logger events``: job events as JSON lines for `workflow/run.py`.

The events are written to the file descriptor that the environment variable `MATMUL_STUDY_EVENTS`
names. If the process that reads them ends, Snakemake and its jobs end too.
"""

import json
import os
import select
import signal
import threading
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from base.processes import end_children

# The fields of each kind of event that are written.
_FIELDS = {
    "run_info": ["stats"],
    "job_info": ["jobid", "rule_name", "rule_msg", "log"],
    "job_finished": ["job_id"],
    "job_error": ["jobid", "rule_name", "log"],
    "error": [],
    "note": [],
}


class LogHandler(LogHandlerBase):
    """Writes job events, one JSON object per line; Snakemake's own log is unchanged."""

    writes_to_stream = writes_to_file = needs_rulegraph = False
    has_filter = has_formatter = True

    def __post_init__(self) -> None:
        self._stream = os.fdopen(int(os.environ["MATMUL_STUDY_EVENTS"]), "w", closefd=False)
        threading.Thread(target=self._end_with_reader, daemon=True).start()

    def _end_with_reader(self) -> None:
        reader = select.poll()
        reader.register(self._stream, 0)
        reader.poll()  # until the reader closes the pipe
        end_children()
        os.kill(os.getpid(), signal.SIGKILL)

    def emit(self, record: LogRecord) -> None:
        """Write a log record if it is a job event or a note of the Snakefile."""
        is_note = record.getMessage().startswith("note: ")
        event = "note" if is_note else str(getattr(record, "event", ""))
        if event in _FIELDS:
            fields = {name: getattr(record, name, None) for name in _FIELDS[event]}
            text = json.dumps({"event": event, **fields, "text": record.getMessage()}, default=str)
            print(text, file=self._stream, flush=True)
