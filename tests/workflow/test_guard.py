"""gemm-study guard and the GitHub action: all kernels of a repository, and their counts."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.support import ROOT

EXAMPLE = (ROOT / "data" / "example.cu").read_text()
HOW_TO = ROOT / "docs" / "how-to" / "guard-a-repository.md"


def run(folder, *arguments):
    command = [sys.executable, "-m", "workflow", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Two kernels, one of them broken, one that the CPU cannot execute, and no product."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "first.cu").write_text(EXAMPLE)
    broken = EXAMPLE.replace("mine", "broken").replace("column < n ?", "column <= n ?")
    (kernels / "broken.cu").write_text(broken.replace("row < n && k + x < n", "k + x < n"))
    (kernels / "maps.cu").write_text("__global__ void maps(CUtensorMap a) { for (;;); }\n")
    (kernels / "scale.cu").write_text("__global__ void scale(float *x) { x[0] *= 2; }\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_github_action_annotates_a_broken_kernel_and_a_grown_count(repository):
    """The steps of the action run here, as GitHub would run them with its inputs."""
    broken = repository / "kernels" / "broken.cu"
    lines = broken.read_text().splitlines()
    lines[12] = lines[12].replace("__syncthreads();", "")
    broken.write_text("\n".join(lines) + "\n")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]["run"]
    command = step.replace("$PATHS", "kernels").replace('"$COUNTS"', "counts.json").split()
    assert command[0] == "gemm-study"
    status, output, _ = run(repository, *command[1:])
    assert status == 2
    (annotation,) = (line for line in output.splitlines() if line.startswith("::error"))
    assert annotation.startswith("::error file=kernels/broken.cu,line=12,title=broken::")
    assert "kernels/first.cu: mine: correct" in output
    assert "kernels/maps.cu: maps: unchecked: kernels/maps.cu: its kernels take a CUt" in output
    assert "scale" not in output
    first = repository / "kernels" / "first.cu"
    broken.unlink()
    first.write_text(EXAMPLE.replace("a_tile[y][i]", "(a_tile[y][i] + a[0] * 0)"))
    before = (repository / "counts.json").read_text()
    status, output, _ = run(repository, *command[1:])
    assert status == 1
    assert "title=mine::global_load_sectors" in output
    assert (repository / "counts.json").read_text() != before, "the counts are renewed"


def test_the_usage_of_the_github_action_is_short_and_names_its_inputs():
    usage = HOW_TO.read_text().split("```yaml\n")[1].split("```")[0]
    assert len(usage.splitlines()) <= 15
    (job,) = yaml.safe_load(usage)["jobs"].values()
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert set(job["steps"][-1]["with"]) <= set(action["inputs"])


@pytest.mark.slow
@pytest.mark.exhaustive
def test_try_writes_the_example_once_and_prints_its_result_as_json(repository):
    assert run(repository, "try", "--example")[0] == 0
    assert (repository / "mine.cu").read_text() == EXAMPLE
    status, _, error = run(repository, "try", "--example")
    message = "mine.cu: exists; move it, or try it: gemm-study try mine.cu"
    assert (status, error) == (2, f"error: {message}\n")
    status, output, _ = run(repository, "try", "mine.cu", "--json")
    (result,) = json.loads(output)
    facts = [result[name] for name in ("status", "kernel", "multiple")]
    assert (status, facts) == (0, ["correct", "mine", 1])
    (repository / "mine.cu").rename(repository / "other.cu")
    (repository / "mine.cu").symlink_to("nowhere.cu")
    assert run(repository, "try", "--example")[2] == f"error: {message}\n"
    assert result["counts"]["global_load_sectors"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("try",), "FILE: missing; name a .cu or .py file, or write one by --example"),
        (("guard", "empty"), "empty: no CUDA source with a kernel; name a file or folder"),
        (("guard", "kernels", "--counts", "bad.json"), "bad.json: is not a file of counts: name"),
    ],
)
def test_wrong_arguments_of_guard_are_one_line_errors(repository, arguments, message):
    (repository / "empty").mkdir()
    (repository / "bad.json").write_text("[1]")
    status, _, error = run(repository, *arguments)
    assert status == 2
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1


@pytest.mark.exhaustive
def test_guard_reports_a_kernel_with_lines_only_for_gpus_as_not_checked(repository):
    """As in `gemm-study try`, such a kernel is not called correct."""
    only_gpus = "#if __CUDA_ARCH__ >= 800\n    __nanosleep(9);\n#endif\n    float sum"
    (repository / "mine.cu").write_text(EXAMPLE.replace("    float sum", only_gpus, 1))
    status, output, _ = run(repository, "guard", "mine.cu")
    assert status == 3
    assert "mine.cu: mine: unchecked: mine.cu:8: only GPUs compile these lines" in output
