"""The recipes of the how-to run as written; only the benchmark programs are replaced."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = Path("docs/how-to/compare-result-files.md").read_text(encoding="utf-8")
# Writes a file of pytest-benchmark, or of nvbench; the seconds are of the checkout or the program.
PROGRAM = f"""#!{sys.executable}
import array, json, os, random, sys
out, program = sys.argv[-1].split("=")[-1], os.path.dirname(sys.argv[0])
is_nvbench = "--jsonbin" in sys.argv
seconds = float(open(os.path.join(program if is_nvbench else ".", "seconds")).read())
times = [[seconds * random.uniform(at, 1.01 * at) for _ in range(9)] for at in range(1, 5)]
runs = [{{"fullname": f"t::{{at}}", "stats": {{"data": of}}}} for at, of in enumerate(times)]
content = {{"machine_info": {{}}, "benchmarks": runs}}
if is_nvbench:
    os.makedirs(out + "-bin", exist_ok=True)
    states = []
    for at, of in enumerate(times):
        array.array("f", of).tofile(open(f"{{out}}-bin/{{at}}", "wb"))
        values = {{"filename": f"{{os.path.basename(out)}}-bin/{{at}}", "size": str(len(of))}}
        data = [{{"name": name, "value": value}} for name, value in values.items()]
        tags = [{{"tag": "nv/json/bin:nv/cold/sample_times", "data": data}}]
        states.append({{"name": str(at), "summaries": tags}})
    content = {{"devices": [], "benchmarks": [{{"name": "copy", "states": states}}]}}
json.dump(content, open(out, "w"))
"""
BUILD = """#!/bin/sh
mkdir old new
for build in old new; do cp ../bin/pytest $build/bench; done
git show origin/main:seconds > old/seconds; cp seconds new
"""


def recipe(title):
    """Return the commands of a recipe."""
    text = re.search(rf"## In CI, with {title}\n.*?```yaml\n(.*?)```", PAGE, re.S)[1]
    assert len(text.splitlines()) <= 15
    return [step["run"] for step in yaml.safe_load(text)["jobs"]["times"]["steps"] if "run" in step]


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.exhaustive
@pytest.mark.parametrize("title", ["pytest-benchmark", "nvbench"])
def test_the_documented_ci_recipe_fails_only_for_a_push_that_is_slower(tmp_path, title):
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    for folder in (tmp_path / "bin", work / "repeats"):
        folder.mkdir(parents=True)
    program(tmp_path / "bin" / "pytest", PROGRAM)
    program(work / "build-both.sh", BUILD)
    tools = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    facts = {"RUNNER_TEMP": str(temporary), "GITHUB_SHA": "1f4b922", "HOME": str(tmp_path)}
    environment = os.environ | facts | {"PATH": tools}

    def output(command):
        """As a step of GitHub Actions."""
        how = {"cwd": work, "env": environment, "capture_output": True, "text": True}
        done = subprocess.run(["bash", "-e", "-c", command], **how)
        return done.returncode, done.stdout + done.stderr

    user = "git config user.email a@example.org; git config user.name a"
    origin = "git init -q --bare ../origin; git remote add origin ../origin"
    assert output(f"git init -q -b main; {user}; {origin}")[0] == 0
    (work / "seconds").write_text("0.001")
    flag = "--jsonbin " if title == "nvbench" else "--benchmark-json="
    made = f"cp ../bin/pytest seconds repeats; for i in $(seq 10 29); do repeats/pytest {flag}"
    assert output(f"{made}repeats/$i.json; done; rm repeats/[ps]*")[0] == 0
    publish = "git add .; git commit -qm times; git push -q origin main; git fetch -q"
    assert output(publish) == (0, "")
    for seconds, status in (("0.001", 0), ("0.0013", 1), ("0.001", 0)):
        clean = "git clean -fdxq; rm -rf ../temporary; mkdir ../temporary"  # as the runner does
        assert output(clean) == (0, "")
        (work / "seconds").write_text(seconds)
        *steps, compare = recipe(title)
        assert [output(step)[0] for step in steps] == [0] * len(steps)
        exit_status, text = output(compare)
        assert exit_status == status, text
        assert text.count("::error title=gemm-study::most benchmarks: ") == status
        assert text.count("::notice title=gemm-study::") == 1
    history = re.search(r"```sh\n(gemm-study history.*?)```", PAGE, re.S)[1]
    if title == "pytest-benchmark":
        history = history.replace("new?", "$RUNNER_TEMP/new?")
    assert output(history) == (0, "0 steps of 4 benchmarks in 1 entries\n")
    assert (work / "history.svg").read_text().startswith("<svg")
