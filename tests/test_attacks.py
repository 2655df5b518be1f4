"""Hostile and broken inputs: each is handled correctly or gives a one-line error."""

import gc
import gzip
import io
import math
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest
import yaml

from analysis import tables
from analysis.data.recordings import sources
from analysis.data.sessions import together
from base.errors import StudyError
from base.files import MANIFEST
from kernels.products.matrices import Inputs, memory_needed
from kernels.products.shape import Shape
from measurement.recording import recording
from measurement.recording.files import PROVENANCE, check_copies
from measurement.sampling.worker import Opening, serve
from study.config import load
from tests.support import ROOT
from tests.support.broken import edit, edit_cell, edit_provenance, seal
from tests.support.simulated import recorded


def refused(process, said):
    """Check that a process failed with this one line."""
    assert process.returncode != 0
    lines = (process.stdout + process.stderr).strip().splitlines()
    assert len(lines) == 1, lines
    assert re.search(said, lines[0]), lines[0]


def test_garbage_collection_is_off_while_a_worker_measures(monkeypatch):
    """A collection during a run would be timed."""
    here, there = multiprocessing.Pipe()
    monkeypatch.setattr("measurement.sampling.worker.signal.signal", lambda *_: None)
    monkeypatch.setattr("measurement.sampling.worker.keep_to_core", lambda _: None)
    seen = []

    @contextmanager
    def session(_):
        seen.append(gc.isenabled())
        yield

    here.send(("close", []))
    try:
        serve(there, Opening(session, (("float32", Shape.square(1)),), 1, Path(), 0.0, 0.0, 0))
    finally:
        gc.enable()
    assert seen == [False]


# What .venv is instead of the environment, and the error.
ENVIRONMENTS = {
    "a link to somebody's": (lambda venv, own: venv.symlink_to(own), "was not made by .*; move it"),
    "a link to nothing": (
        lambda venv, own: venv.symlink_to(own / "no"),
        "was not made by .*; move it",
    ),
    "somebody's folder": (lambda venv, own: own.rename(venv), "was not made by .*; move it"),
    "an environment of uv": (lambda venv, own: of_uv(venv), "was not made by .* without make: "),
    "somebody's file": (lambda venv, own: venv.write_text("x"), "was not made by this set-up"),
}


def of_uv(venv):
    """Make what ``uv sync --locked`` and ``uv pip install`` leave: the prompt is that of set-up."""
    packages = venv / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "of_the_user.py").write_text("years = 'of work'")
    (venv / "pyvenv.cfg").write_text("uv = 0.9.0\nprompt = gemm-study\n")


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "Übung mit Leerzeichen"
    shutil.copytree(ROOT / "workflow", folder / "workflow")
    (folder / "uv.lock").write_text("")
    return folder


def set_up(project):
    script = ["sh", "workflow/set-up.sh"]
    return subprocess.run(script, cwd=project, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("make", "said"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_set_up_removes_only_environments_that_it_made(project, make, said):
    own = project / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work")
    make(project / ".venv", own)
    before = sorted(project.rglob("*"))
    refused(set_up(project), said)
    assert sorted(project.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_set_up_names_the_folder_that_it_cannot_write(project):
    project.chmod(0o555)
    done = set_up(project)
    project.chmod(0o755)
    refused(done, r"error: .*\.venv: Permission denied")


# A page with one table `t`, whose column `s` contains 1 and 0, and the fault of the page.
PAGES = {
    "a number from nowhere": ('<b data-at="t 0 s">1</b> takes 17.3 ms', "17.3 is in the text, but"),
    "no report": ("<p>12 numbers, of which none says where it is from", "this is not a report"),
    "an empty page": ("", "this is not a report"),
    "bytes": (b"\xff\xfe", "page.html: is not valid UTF-8; make it with"),
    "another table": ('<b data-at="u 0 s">1</b>', "1: u 0 s does not exist in .*tables"),
    "1,000 faults": ('<b data-at="u 0 s">1</b>' * 1000, "1: u 0 s does not exist in .*tables"),
    "no row": ('<b data-at="t 2 s">1</b>', "1: t 2 s does not exist in .*tables"),
    "a row from the end": ('<b data-at="t -2 s">1</b>', "1: t -2 s does not exist in .*tables"),
    "no column": ('<b data-at="t 0 x">1</b>', "1: t 0 x does not exist in .*tables"),
    "half a place": ('<b data-at="t">1</b>', "1: t does not exist in .*tables"),
    "over nothing": ('<b data-at="t 0 s / t 1 s">1</b>', "1: t 0 s / t 1 s does not exist"),
    "a list for a count": ('<b data-count="t" data-where="[]">1</b>', "1: t where .. does not"),
    "a cell too many": (
        '<table class="a" data-csv="t"><th data-column="s">s<tr data-row="0"><td>1</td><td>2</td>'
        "</tr></table>",
        "2 cells below 1 headings: t 0  does not exist in ",
    ),
}


@pytest.mark.parametrize(("page", "said"), PAGES.values(), ids=PAGES)
def test_a_page_without_numbers_fails_the_check(tmp_path, command, page, said):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("s\n1\n0\n")
    (tmp_path / "page.html").write_bytes(page if isinstance(page, bytes) else page.encode())
    done = command("check", tmp_path / "page.html", "--tables", tmp_path / "tables")
    assert done.returncode != 0
    lines = (done.stdout + done.stderr).splitlines()
    assert re.search(said, lines[0])
    assert len(lines) <= 22


@pytest.mark.parametrize("place", [".snakemake", "results"])
def test_a_run_that_cannot_write_ends_with_an_error(tmp_path, place):
    for name in ("base", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").touch()  # as in a checkout
    (tmp_path / place).write_text("a file")
    script = [sys.executable, "-B", "-m", "workflow", "report"]
    own = os.environ | {"PYTHONPATH": str(ROOT)}  # what is not copied
    done = subprocess.run(script, cwd=tmp_path, env=own, capture_output=True, text=True)
    refused(done, f"error: {place}.*: (File exists|Not a directory)")


def cells(file, column, value, row=1):
    return lambda folder: edit_cell(folder, file, column, value, row)


def facts(*path_and_value):
    *path, value = path_and_value
    return lambda folder: edit_provenance(folder, path, value)


def fact(key, value, index=0):
    """Replace a fact of a GPU."""
    return facts("devices", index, key, value)


def text(file, change):
    return lambda folder: edit(folder, file, change)


def bytes_of(file, data):
    return lambda folder: (folder / file).write_bytes(data() if callable(data) else data)


def rows(file, line, count):
    """Replace all rows by copies of a line."""
    return text(file, lambda content: header(content) + count * line)


def linked(file):
    """Replace the file by a link."""
    return lambda folder: (folder / file).symlink_to((folder / file).rename(folder / "../other"))


def read(content):
    return pd.read_csv(io.StringIO(content), dtype=str, keep_default_na=False)


def header(content):
    return content[: content.index("\n") + 1]


def new_rounds(content):
    """Repeat the samples in rounds of their own."""
    table = read(content)
    again = table.assign(round=(table["round"].astype(int) + 100).astype(str))
    return pd.concat([table, again]).to_csv(index=False)


def no_block(content):
    """Give the naive kernel a check without block size."""
    row = next(row for row in content.splitlines() if row.startswith("gpu0,naive,"))
    *names, _, memory = row.split(",")[:9]
    return content + ",".join([*names, "", memory, "", "exact", "failed", *5 * [""]]) + "\n"


def in_ms(file, column):
    """Write times in milliseconds instead of seconds."""

    def change(content):
        table = read(content)
        seconds = pd.to_numeric(table[column])
        return table.assign(**{column: (seconds * 1e6).astype(str)}).to_csv(index=False)

    return text(file, change)


def without(device):
    """Remove every row of a GPU, not the GPU."""

    def change(folder):
        for path in folder.glob("*.csv*"):
            edit(folder, path.name, lambda t: re.sub(rf"(?m)^{device},.*\n", "", t))

    return change


def replaced(file, old, new):
    return text(file, lambda content: content.replace(old, new, 1))


SAMPLES, CHECKS, KERNELS = "samples.csv.gz", "checks.csv", "kernels.csv.gz"
BUILDS, CEILINGS = "builds.csv", "ceilings.csv"
SHA = "0" * 64
# Changes of a recording whose manifest is updated, and the error.
RECORDINGS = {
    "a time of 0": (cells(SAMPLES, "total_s", "0"), "total_s is 0, not from .* in row 3"),
    "a time of nan": (cells(SAMPLES, "total_s", "nan"), "total_s: 'nan' is not a number in row 3"),
    "no time at all": (cells(SAMPLES, "total_s", "inf"), "total_s is inf, not from .* in row 3"),
    "a negative size": (cells(CHECKS, "n", "-8"), "n is -8, not from 1 to 21"),
    "a block size of 0": (cells(CHECKS, "block_size", "0"), "column block_size is 0, not from 1 "),
    "a kernel in 0 s": (cells(KERNELS, "kernel_s", "0"), "kernel_s is 0, not from 1e-12"),
    "0 launches": (cells(KERNELS, "launches", "0"), "column launches is 0, not from 1 to"),
    "an unknown GPU": (cells(SAMPLES, "device", "gpu7"), "row 3: gpu7 is not a device of"),
    "its ceiling": (cells(CEILINGS, "device", "gpu7"), "ceilings.csv: row 3: gpu7 is not"),
    "no GPU": (facts("devices", []), "gpu0 is not one of devices"),
    "a GPU twice": (fact("device", "gpu0", 1), "a name is listed twice"),
    "no such variant": (cells(SAMPLES, "variant", "magic"), "magic is not a variant of"),
    "no such kernel": (cells(BUILDS, "variant", "magic"), "magic is not a variant"),
    "a CPU's on a GPU": (cells(SAMPLES, "device", "gpu0", 0), "row 2: naive does not exist for"),
    "no such type": (cells(CHECKS, "dtype", "float8"), "column dtype: 'float8' is not one of"),
    "no such memory": (cells(SAMPLES, "host_memory", "hot"), "host_memory: 'hot' is not one of"),
    "a cell unchecked": (cells(SAMPLES, "n", "33"), "a row's cell is missing in checks.csv"),
    "a check twice": (
        text(CHECKS, lambda t: t + t.splitlines(True)[-1]),
        r"checks.csv: rows \d+ and \d+ have the same",
    ),
    "samples of a failure": (cells(CHECKS, "status", "failed"), "a cell that did not pass"),
    "no sample of a pass": (rows(SAMPLES, "", 0), "a passed cell is missing"),
    "power of NaN": (fact("power_limit_w", math.nan), "nan is not a valid number"),
    "power without end": (replaced(PROVENANCE, "100,", "1e999,"), "inf is not a valid number"),
    "5,000 digits": (
        replaced(PROVENANCE, ": 1,", f": {'1' * 5000},"),
        "not valid JSON .Exceeds the limit",
    ),
    "no such date": (facts("started_utc", "2024-13-41T00:00:00Z"), "started_utc: month must be in"),
    "a source elsewhere": (facts("sources", {"../../p.cu": SHA}), "sources[.][.][.]/.* is not all"),
    "limits in texts": (fact("limits", {"warp_size": "32"}), "limits.warp_size: '32' is not allo"),
    "a terminal's escape": (facts("host", "os", "\x1b[2J"), "a text contains the character"),
    "a text without end": (facts("host", "os", "x" * 5000), "a text has 5000 characters"),
    "5,000 brackets": (bytes_of(PROVENANCE, b"[" * 5000 + b"]" * 5000), "json is not valid JSON"),
    "30 brackets": (facts("host", "x", eval("[" * 30 + "]" * 30)), "more than 16 nested brackets"),
    "a bomb": (
        bytes_of(SAMPLES, lambda: gzip.compress(bytes(2**26), 1)),
        "it unpacks to more than",
    ),
    "many rows": (rows(SAMPLES, f"{'1,' * 25}1\n", 1_300_000), "it unpacks to more than"),
    "200,000 columns": (bytes_of(CHECKS, b"x," * 200_000 + b"\n"), "has 200001 columns, not"),
    "many ends": (bytes_of(SAMPLES, gzip.compress(b"") * 50_000), "has the columns"),
    "a long name": (bytes_of(SAMPLES, b"\x1f\x8b\x08\x08" + b"x" * 2**21), "cannot be read"),
    "600,000 rows": (rows(CEILINGS, "cpu,x,,,1,1,1\n", 600_000), "more than 524288 rows"),
    "130,000 GPUs": (facts("devices", [1] * 130_000), "list should have at most 64"),
    "200,000 facts": (facts("configuration", "x", [1] * 200_000), "more than 131072 values"),
    "a key twice": (replaced(PROVENANCE, "{", '{"seed": 2,'), "the key 'seed' is given twice"),
    "a mark in front": (text(CHECKS, lambda t: f"\ufeff{t}"), r"has the columns \['.ufeffdevice'"),
    "lines of Windows": (text(CHECKS, lambda t: t.replace("\n", "\r\n")), "a control character"),
    "a cell too many": (replaced(CHECKS, "passed", "passed,passed"), "cannot be read"),
    "a column twice": (replaced(CHECKS, "dtype", "variant"), "has the columns"),
    "a row cut off": (text(CHECKS, lambda t: t[:-20]), "the last line is cut off"),
    "half a quotation": (text(CHECKS, lambda t: t + '"\n'), "EOF inside string"),
    "a byte of 0": (cells(CHECKS, "reason", "\0"), "it contains a control character"),
    "a line in a reason": (cells(CHECKS, "reason", "a\nb"), "reason: a text contains .* U.000A"),
    "Arabic digits": (cells(CHECKS, "n", "٣٢"), "column n: '٣٢' is not a number"),
    "half a block": (cells(CHECKS, "block_size", "32.5"), "block_size is 32.5, not a whole"),
    "a time of -0": (cells(SAMPLES, "other_threads_s", "-0"), "other_threads_s is -0, not from 0"),
    "1e308 s": (cells(SAMPLES, "total_s", "1e308"), "total_s is 1e[+]308, not from 1e-12 to 1"),
    "a block of no kernel": (text(CHECKS, no_block), "naive does not exist for float32 with block"),
    "a library's build": (cells(BUILDS, "variant", "cublas_sgemm"), "cublas_sgemm is not a varian"),
    "a sample ten times": (
        text(SAMPLES, lambda t: t + 9 * t.removeprefix(header(t))),
        "have the same cell and round",
    ),
    "samples in new rounds": (text(SAMPLES, new_rounds), "have the same cell and time_unix_s"),
    "a kernel of 5 s": (cells(SAMPLES, "kernel_s", "5", 200), "row 202: kernel_s is longer than"),
    "copies of 5 s": (cells(SAMPLES, "h2d_s", "5", 200), "row 202: the parts of the run are"),
    "milliseconds": (in_ms(SAMPLES, "total_s"), r"column total_s: the runs of \w+ take"),
    "kernels in ms": (in_ms(KERNELS, "kernel_s"), "kernel_s: the runs of gpu0 take .* s, longer t"),
    "another day": (cells(SAMPLES, "time_unix_s", "1.6e9"), "row 3: time_unix_s is not between"),
    "threads of a GPU": (cells(CHECKS, "threads", "4", 100), "row 102: a CPU has threads, a GPU"),
    "memory of a CPU": (cells(CHECKS, "host_memory", "pinned", 0), "row 2: a GPU has a host memor"),
    "a GPU without rows": (without("gpu1"), "checks.csv: contains no row of gpu1, a device of"),
    "finished before": (facts("finished_utc", "2023-01-01T00:00:00Z"), "finished_utc: is before"),
    "an offset": (facts("started_utc", "2024-01-01T00:00:00+01:00"), "started_utc: .* is not allo"),
    "a phase of 1e308 s": (facts("phases", 0, "wall_s", 1e308), r"1e.308 is not a valid number"),
    "a phase of a day": (facts("phases", 0, "busy_s", 86400.0), r"phases\[0\]: longer than"),
    "a phase of no GPU": (facts("phases", 0, "device", "gpu7"), r"phases\[0\]: gpu7 is not one"),
    "no versions": (facts("software", {}), "software: missing driver, cuda_driver, cublas"),
    "an unknown fact": (fact("x", [{"a": 1}, 2]), r"devices\[0\]: unknown key x"),
    "a name from right to left": (fact("name", "A\u202eB"), "contains .* U.202E"),
    "a name in Cyrillic": (fact("name", "NVIDIA Н200"), "NVIDIA .* is not allowed"),
    "a name of spaces": (fact("name", "  "), r"devices\[0\].name: ' '"),
    "too much provenance": (bytes_of(PROVENANCE, b" " * 2**21), "has 2097152 bytes, more"),
    "more cells than columns": (text(CHECKS, lambda t: t.replace("\n", ",1\n")), "has the columns"),
    "a link": (linked(CHECKS), "checks.csv is not a plain file"),
    "no gzip": (bytes_of(SAMPLES, b"no gzip"), "samples.csv.gz cannot be read"),
    "a cut gzip": (bytes_of(SAMPLES, gzip.compress(b"x" * 999)[:-20]), "gz cannot be read"),
    "a gzip of garbage": (bytes_of(SAMPLES, gzip.compress(b"a")[:10] + b"\xff" * 20), "be read"),
    "a gzip of bytes": (bytes_of(SAMPLES, gzip.compress(b"\xff\xfe")), "gz cannot be read"),
    "a link to a manifest": (linked(MANIFEST), "MANIFEST.sha256 is not a plain file"),
}


@pytest.fixture(scope="module")
def sound():
    """A recording of two GPUs; not to be changed."""
    few = ("naive", "block")
    return recorded(gpus=2, sizes=(32,), holdout=(), samples=2, complete=True, variants=few)


@pytest.mark.parametrize(("change", "said"), RECORDINGS.values(), ids=RECORDINGS)
def test_a_recording_that_contradicts_itself_is_refused(sound, tmp_path, change, said):
    folder = shutil.copytree(sound, tmp_path / "r")
    change(folder)
    if not (folder / MANIFEST).is_symlink():
        seal(folder)
    before = psutil.Process().memory_info().rss
    with pytest.raises(StudyError, match=said) as refused:
        recording.read(folder)
    assert "\n" not in str(refused.value)
    assert psutil.Process().memory_info().rss - before < 2**27


def a_day_later(folder):
    day = 86400
    for date in ("started_utc", "finished_utc"):
        facts(date, f"2024-01-02T00:{'10' if date < 's' else '00'}:00Z")(folder)
    stamp = r"(?<=,)17040\d{5}(?=[.,])"
    for name in (SAMPLES, KERNELS):
        edit(folder, name, lambda t: re.sub(stamp, lambda found: str(int(found[0]) + day), t))


# Copies of a recording, which are no second session.
COPIES = {
    "under another name": lambda folder: None,
    "in another order": text(SAMPLES, lambda t: header(t) + "".join(t.splitlines(True)[:0:-1])),
    "with another seed": facts("seed", 2),
    "on another day": a_day_later,
    "with some other samples": cells(SAMPLES, "total_s", "0.5", 200),
}


@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_recording_is_refused_as_second_session(sound, tmp_path, change):
    folder = shutil.copytree(sound, tmp_path / "another")
    change(folder)
    seal(folder)
    said = r"/another: \d+ of \d+ samples are also in .*; remove one"
    with pytest.raises(StudyError, match=said):
        together([recording.read(sound), recording.read(folder)])


def test_a_copied_recording_is_named_before_any_table_is_read(sound, tmp_path):
    copy = shutil.copytree(sound, tmp_path / "another")
    check_copies([sound])
    with pytest.raises(StudyError, match=r"another: has the samples of .*; remove one of the two"):
        check_copies([sound, copy])


def test_a_copy_of_a_recording_is_refused_as_second_entry(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_part", lambda own, *_: tables._Part({}, [], sources(own)))
    folders = {"a": [sound], "b": [shutil.copytree(sound, tmp_path / "another")]}
    published = SimpleNamespace(times=pd.DataFrame())
    with pytest.raises(StudyError, match="samples are also in"):
        tables.compute(folders, published, [], [], print)


def setting(*path_and_value):
    """Return a change of one value of a configuration."""
    *path, last, value = path_and_value

    def change(config):
        reduce(getitem, path, config)[last] = value
        return yaml.safe_dump(config)

    return change


def cards(*names):
    return setting("gpus", [{"id": name, "recording": name} for name in names])


def shapes(*texts):
    return setting("study", "series", 0, "shapes", list(texts))


ORDER_SAID = "use a whole number from 1 to 46340"
# Changes of config.yaml, and the error.
CONFIGS = {
    "an order of a million": (setting("study", "sizes", [10**6]), ORDER_SAID),
    "a shape of 1e12": (shapes("1x1000000x1000000"), "less than 2.31"),
    "a shape of 5,000 digits": (shapes("1" * 5000), "less than 2.31"),
    "a nanosecond to answer": (setting("study", "protocol", "hang_limit_s", 1e-9), "from 1 to 1e6"),
    "a seed that no file holds": (setting("study", "seed", 2**64), "from 0 to 2.53"),
    "a billion samples": (setting("study", "protocol", "samples", 10**9), "from 1 to 1000000"),
    "an id with a line's end": (cards("a\n"), "letters, digits"),
    "the label of another's card": (cards("a", "a-gpu1"), "a-gpu1 is also the name of"),
    "a path that ends": (setting("gpus", 0, {"id": "a", "recording": "a\0b"}), "one line of text"),
    "5,000 brackets": (lambda _: "[" * 5000, "has too many nested levels"),
    "a billion laughs": (lambda _: "a: &a [1]\nb: [*a, *a]", "aliases .* are not allowed"),
    "a day that is none": (lambda _: "study: !!timestamp 2001-99-99", "mapping|study"),
    "a tag that is none": (lambda _: "study: !!python/object:os.system x", "mapping|study"),
    "a megabyte": (lambda _: "#" * 2**21, "larger than 65536 bytes"),
    "7,000 keys": (lambda _: "".join(f"k{i}: 1\n" for i in range(7000)), "unknown key k0"),
    "products for a year": (setting("study", "sizes", [*range(1, 5000)]), "than 20000 products"),
    "no text": (lambda _: "\x00", "special characters are not allowed"),
}


@pytest.mark.parametrize(("change", "said"), CONFIGS.values(), ids=CONFIGS)
def test_an_impossible_configuration_is_refused(tmp_path, change, said):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    path = tmp_path / "config.yaml"
    path.write_text(change(config))
    with pytest.raises(StudyError, match=said) as refused:
        load(path)
    assert "\n" not in str(refused.value)


def test_too_large_matrices_are_refused_before_memory_is_allocated():
    problems = [("float32", Shape.square(40000))] * 2 + [("float64", Shape.square(46340))]
    assert 3 * 8 * 46340**2 < memory_needed(problems) < 20 * 8 * 46340**2
    with pytest.raises(StudyError, match=r"products up to .* need .* GiB are free"):
        Inputs([("float64", Shape(10**6, 2 * 10**6, 1, 1))], 0)


PEAK = r"""
import os, re, sys
from measurement.recording import recording
# Of a forked process alone; its libraries count once it has used them.
peak = lambda: 1024 * int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
for folder in sys.argv[2:]:
    if not os.fork():
        recording.read(sys.argv[1])
        before = peak()
        recording.read(folder)
        print(peak() - before, flush=True)
        os._exit(0)
    os.wait()
"""


def as_measured(content):
    """Return samples of as many rounds as fit."""
    table = read(content)
    parts = []
    for number in range(32_000 // len(table)):
        rounds = (table["round"].astype(int) + 2 * number).astype(str)
        later = {"total_s": 1e-9, "time_unix_s": 1e-3}
        own = {n: pd.to_numeric(table[n]) + step * number for n, step in later.items()}
        parts.append(table.assign(round=rounds, **{n: x.astype(str) for n, x in own.items()}))
    return pd.concat(parts).to_csv(index=False)


def as_short_as_possible(content):
    """Return ceilings in the shortest rows that are read: 20 bytes per row, 59 in memory."""
    return header(content) + "".join(f"cpu,abc,,,1,{at},1\n" for at in range(100_000, 600_000))


def as_many_cells(content):
    """Return checks of very many cells, which could not be launched."""
    head, *rows = content.splitlines()
    own = dict(zip(head.split(","), rows[-1].split(","), strict=True))
    own |= dict.fromkeys(("worst_row", "worst_column", "worst_error", "worst_bound"), "")
    own |= {"status": "not_launchable", "reason": "x", "k": "%d"}
    row = ",".join(own.values())
    return "\n".join([head, *rows, *(row % k for k in range(10**6, 1_072_000))]) + "\n"


@pytest.mark.exhaustive
def test_reading_a_recording_takes_at_most_eight_times_its_size_in_memory(sound, tmp_path):
    changes = {SAMPLES: as_measured, CEILINGS: as_short_as_possible, CHECKS: as_many_cells}
    folders = [shutil.copytree(sound, tmp_path / name) for name in changes]
    holds = []
    for folder, (name, content) in zip(folders, changes.items(), strict=True):
        edit(folder, name, lambda text, content=content: holds.append(content(text)) or holds[-1])
        seal(folder)
    script = [sys.executable, "-c", PEAK, sound, *folders]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
    for text, peak in zip(holds, done.stdout.split(), strict=True):
        assert 13 * 2**20 > len(text) > 5 * 2**20
        assert int(peak) < 8 * len(text)
