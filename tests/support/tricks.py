"""One device in this process, measured and checked as by a recorder, for tests of tricks."""

from kernels.products.matrices import Inputs
from kernels.products.references import References
from measurement.devices.errors import CellError
from measurement.devices.second_check import SPARE_BYTES, check_floor, check_in_run
from measurement.sampling.protocol import gate
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.worker import Opening, Worker
from study.cells import problems

SAMPLES = 6


class InProcess(Supervisor):
    def __init__(self, session, cells, folder, inputs=None):
        inputs = inputs or session._inputs
        opening = Opening(lambda _: session, problems(cells), 1, folder, 0.0, 0.0, 0)
        super().__init__("gpu0", opening, 1.0)
        self._worker = Worker(session, inputs, References(inputs, folder), opening)

    def _ask(self, subject, name, *arguments):
        return self._worker.call(name, *arguments)


def inputs_of(cells):
    return Inputs(problems(cells), 1, SPARE_BYTES)


def outcome(session, cell, folder, ceilings):
    """Gate, run and time a cell as a recorder does; return the reason of its refusal, or None."""
    device = InProcess(session, [cell], folder)
    ((check, _),) = gate(device, [cell], lambda _: None)
    if check.status != "passed":
        return f"gate: {check.reason}"
    in_run_s = []
    try:
        for number in range(SAMPLES):
            done = device.sample(cell, number == SAMPLES - 1)
            check_floor(cell, done.timing.total_s, ceilings, end_to_end=True)
            in_run_s.append(done.timing.kernel_s)
        for number in range(SAMPLES):
            timed = device.kernel_time(cell, False, number == SAMPLES - 1)
            check_floor(cell, timed.time.kernel_s, ceilings)
            check_in_run(cell, timed.time.kernel_s, timed.time.queued_s, min(in_run_s))
    except CellError as error:
        return str(error)
    return None
