"""gemm-study report: progress, one-line errors, locks and resuming."""

import base64
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support import ROOT, for_make_test, warm

pytestmark = pytest.mark.slow
LIMIT_S = 60  # for seconds of work, on a busy machine
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}  # other packages
# `slow.txt` waits silently for the file `go`. Snakemake marks output as incomplete only after the
# start of a job. Unlike the study's own outputs, this one can be incomplete.
SNAKEFILE = """
rule report:
    input: "results/slow.txt", "results/quick.txt"
    message: "The study is complete"

rule quick:
    output: "results/quick.txt"
    log: "results/logs/quick.log"
    message: "Being quick"
    shell: "echo begun > {log}; echo quick > {output}"

rule slow:
    input: "results/quick.txt"
    output: "results/slow.txt"
    log: "results/logs/slow.log"
    message: "Being slow"
    shell: "trap '' INT; echo '1/2 parts, about 1:10 left' > {log};"
           " until [ -e .snakemake/incomplete/NOTE ]; do sleep 0.02; done; echo half > {output};"
           " until [ -e go ]; do sleep 0.05; done; echo whole > {output}"
""".replace("NOTE", base64.b64encode(b"results/slow.txt").decode())


@pytest.fixture
def project(tmp_path):
    """A project with the workflow SNAKEFILE and the real command."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("base", "kernels", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "pyproject.toml").touch()  # as in a checkout
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    return tmp_path


def start(project, *arguments, **options):
    command = [sys.executable, "-m", "workflow", "report", "--cores", "1", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return warm.Popen(command, cwd=project, env=ENVIRONMENT, start_new_session=True, **pipes)


def run(project, *arguments):
    process = start(project, *arguments)
    output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, errors


def changed(project, old, new, *arguments):
    """Run a changed workflow to its end; no job waits."""
    (project / "Snakefile").write_text(SNAKEFILE.replace(old, new))
    (project / "go").touch()
    return run(project, *arguments)


def wait_for(path):
    until = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.02)


def at_work(project):
    process = start(project)
    wait_for(project / "results" / "slow.txt")
    return process


def left_in(project):
    own = ("cwd", str(project))
    found = psutil.process_iter(["cwd", "status"])
    return [each for each in found if own in each.info.items() and each.info["status"] != "zombie"]


def test_report_prints_a_line_per_job_and_logs_the_rest_to_a_file(project):
    status, output, errors = changed(project, "echo quick >", "echo {config[scope]} >", "--full")
    assert status == 0, errors
    assert (project / "results" / "quick.txt").read_text() == "full\n"
    shown = [re.match(r"[^·]* · ([^·]*[^· ])", line)[1] for line in errors.splitlines()]
    jobs = ["1/3 Being quick", "2/3 Being slow", "3/3 The study is complete"]
    assert list(dict.fromkeys(shown)) == ["planning jobs", *jobs]
    assert re.fullmatch(rf"The report: {project}/results/report\.html \(in 0:\d\d\)\n", output)
    assert "3 of 3 steps (100%) done" in (project / "results/logs/snakemake.log").read_text()


def test_report_prints_the_notes_of_the_snakefile(project):
    status, _, errors = changed(project, "rule report", 'logger.info("note: no x")\nrule report')
    assert (status, errors.splitlines().count("note: no x")) == (0, 1)


def test_report_shows_a_running_clock_on_a_terminal(project):
    terminal, end = pty.openpty()
    process = start(project, stderr=end)
    os.close(end)
    wait_for(project / "results" / "slow.txt")
    shown, until = "", time.monotonic() + 4
    while time.monotonic() < until:
        assert select.select([terminal], [], [], 3)[0], "nothing is shown for 3 s"
        shown += os.read(terminal, 1 << 16).decode()
    (project / "go").touch()
    process.communicate(timeout=LIMIT_S)
    lines = shown.split("\r\x1b[2K")[2:-1]
    assert len(set(lines)) > 2, "the clock runs"
    left = "about 1:10 le"
    assert re.fullmatch(rf"0:\d\d, {left}ft · 2/3 Being slow · 1/2 parts, {left}.*", lines[-1])
    assert all(len(line) < 80 and "\n" not in line for line in lines)


def test_a_second_concurrent_report_is_refused_in_one_line(project):
    first = at_work(project)
    status, output, errors = run(project)
    assert (status, output) == (2, "")
    owner = r"another run is active in this folder \(process (\d+)\)"
    told = re.fullmatch(rf"error: {owner}; wait for its end or .*\n", errors)
    assert psutil.Process(int(told[1])).parent().pid == first.pid
    (project / "go").touch()
    assert first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0


def signals(*numbers, kill=os.kill, snakemake=False):
    """Return a function that sends these signals to a run at work."""

    def send(project):
        process = at_work(project)
        target = int((project / ".snakemake" / "alive").read_text()) if snakemake else process.pid
        for number in numbers:
            kill(target, number)
        return process

    return send


def close_pipe(project):  # as `2>&1 | head -1`
    process = start(project)
    process.stderr.readline()
    process.stderr.close()
    process.stderr = None
    return process


def fill_disk(project):
    with open("/dev/full", "w") as full:
        return start(project, stderr=full)


OF_QUICK, OF_SNAKEMAKE = (rf"\(see results/logs/{name}\.log\)" for name in ("quick", "snakemake"))
STOPPED = "stopped; rerun the same command to resume"
KILLED = "ended by SIGKILL; rerun the same command"


FAULTS = {
    "INT": (signals(signal.SIGINT), 130, STOPPED),
    "TERM twice": (signals(signal.SIGTERM, signal.SIGTERM, signal.SIGHUP), 130, STOPPED),
    "KILL": (signals(signal.SIGKILL), -signal.SIGKILL, ""),
    "KILL group": (signals(signal.SIGKILL, kill=os.killpg), -signal.SIGKILL, ""),
    "KILL Snakemake": (
        signals(signal.SIGKILL, snakemake=True),
        2,
        f"error: Snakemake was {KILLED}",
    ),
    "closed": (close_pipe, 141, None),
    "full": (fill_disk, 2, None),
}


@pytest.mark.parametrize(
    ("fault", "status", "message"), for_make_test(FAULTS, "INT", "KILL Snakemake", "closed")
)
def test_an_interrupted_report_leaves_no_process_and_resumes(project, fault, status, message):
    process = fault(project)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == status
    assert message is None or errors.splitlines()[-1].endswith(message)
    assert "Traceback" not in (errors or "")
    psutil.wait_procs(left_in(project), timeout=LIMIT_S)
    assert left_in(project) == []
    (project / "go").touch()
    status, _, errors = run(project)
    assert status == 0, errors
    assert (project / "results" / "slow.txt").read_text() == "whole\n"
    assert message is None or "Being quick" not in errors, "finished jobs are not repeated"


def test_a_report_under_nohup_continues_after_its_terminal_closes(project):
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = at_work(project)
    signal.signal(signal.SIGHUP, kept)
    process.send_signal(signal.SIGHUP)
    (project / "go").touch()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0


@pytest.mark.exhaustive
def test_closed_standard_streams_do_not_change_a_report(project):
    (project / "go").touch()
    command = 'exec "$0" -m workflow report --cores 1 <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", command, sys.executable], cwd=project, env=ENVIRONMENT)
    assert done.returncode == 0
    log = (project / "results/logs/snakemake.log").read_text()
    assert "steps (100%) done" in log
    assert '{"event"' not in log


ERRORS = {
    "told": (("begun > {log}", "'error: no x' > {log}; exit 3"), rf"Being quick: no x {OF_QUICK}"),
    "untold": (("begun > {log}", "spoiled > {log}; exit 3"), rf"Being quick: spoiled {OF_QUICK}"),
    "refused": (("\nrule report", "\nimport sys; sys.exit('error: no y')\nrule report"), "no y"),
    "missing": (
        ('"results/quick.txt"\n    log', '"results/other.txt"\n    log'),
        rf"MissingInputException .*results/quick\.txt.* {OF_SNAKEMAKE}",
    ),
    "syntax": (("rule quick:", "rule quick"), rf".+ {OF_SNAKEMAKE}"),
}


@pytest.mark.parametrize(("change", "message"), for_make_test(ERRORS, "told", "missing"))
def test_a_user_error_is_reported_in_one_line(project, change, message):
    status, output, errors = changed(project, *change)
    assert (status, output) == (2, "")
    (said,) = (line for line in errors.splitlines() if not re.match(r"\d+:\d\d", line))
    assert re.fullmatch(f"error: {message}", said)


OTHERS = ("", "-n", "results/gone.txt", "named")


@pytest.mark.parametrize(
    "target", ["gone", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in OTHERS)]
)
def test_an_unknown_target_is_a_one_line_error_that_lists_valid_targets(project, target):
    rule = 'rule named:\n    output: "{name}.x"\n    shell: "exit 1"\n'
    (project / "Snakefile").write_text(SNAKEFILE + rule)
    status, output, errors = run(project, "--", target)
    known = "quick, report, slow, or a file that a rule makes"
    assert (status, output) == (2, "")
    assert errors.splitlines()[1:] == [f"error: TARGET: {target!r} is unknown; use {known}"]


def test_report_with_watch_renews_the_page_after_an_edit(project):
    (project / "report").mkdir()
    style = project / "report" / "style.css"
    style.write_text("a")
    text = SNAKEFILE.replace('input: "results/slow.txt", "results/quick.txt"', 'input: "page"')
    text += 'rule page:\n    input: "report/style.css"\n    output: "page"\n'
    (project / "Snakefile").write_text(text + '    shell: "cp {input} {output}"\n')
    process = start(project, "--watch")
    wait_for(project / "page")
    assert any("watching report and analysis" in line for line in process.stderr)
    (project / "page").rename(project / "before")
    style.write_text("b")
    wait_for(project / "page")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert (project / "page").read_text() == "b"
