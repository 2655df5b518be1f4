"""A quick question: the study narrowed, this user's own file over it, the answer as a table."""

import re
from dataclasses import replace

import pytest

from base.errors import StudyError
from measurement.recorder.answer import answer
from study.cells import gpu_cells
from study.config import load
from study.config_file import ConfigError
from study.narrow import narrowed, undecided
from tests.support.fakes import CONFIG


@pytest.fixture
def path(tmp_path):
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path / "config.yaml"


def test_a_narrowed_study_measures_only_the_named_variants_and_sizes(path):
    other_shapes = "study: { cpu: { variants: [blas], shapes: [8x4x2] } }"
    path.with_name("config.local.yaml").write_text(other_shapes)
    assert load(path).study.cpu.shapes
    study = narrowed(load(path), ["block"], [12]).study
    assert {(cell.variant, cell.shape.n) for cell in gpu_cells(study, "gpu0")} == {("block", 12)}
    assert (study.cpu.variants, study.cpu.sizes, study.cpu.shapes) == (["blas"], [12], [])
    assert (study.interference, study.energy, study.protocol.cold_starts) == (None, None, 0)
    assert study.seed == 11
    other = {"variants": ["mm_tile"], "dtypes": ["float64"], "block_sizes": [8], "shapes": [12]}
    more = gpu_cells(narrowed(load(path), ["block"], [12], [other]).study, "gpu0")
    found = {(cell.variant, cell.dtype) for cell in more}
    assert found == {("block", "float32"), ("mm_tile", "float64")}
    assert narrowed(load(path), [], []) == load(path)


def test_a_study_of_undecided_configurations_requests_enough_samples(path, tmp_path):
    head = "device,variant,batch,m,n,k,samples_a,samples_needed,verdict"
    rows = ["gpu0,block,1,12,12,12,9,30.0,undecided", "gpu0,naive,1,8,8,8,9,,same"]
    rows += ["cpu,blas,1,20,20,20,9,,undecided", "gpu0,mm_tile,1,1,2,3,9,5000,undecided"]
    file = tmp_path / "differences.csv"
    file.write_text("\n".join([head, *rows]) + "\n")
    assert undecided(file) == (["block"], [12, 20], 400)
    protocol = narrowed(load(path), ["block"], [12], samples=400).study.protocol
    assert protocol.samples == 400
    assert protocol.gpu_cell_budget_s >= 400 * protocol.single_run_s
    file.write_text("\n".join([head, rows[1]]) + "\n")
    for text, reason in ((None, "is undecided"), ("a,b\n1,2\n", "compare A B --csv FILE")):
        if text:
            file.write_text(text)
        with pytest.raises(StudyError, match=reason):
            undecided(file)


def test_a_narrowed_quick_study_keeps_the_quick_protocol(path):
    path.write_text(CONFIG.replace("  seed: 11", "  seed: 11\n  quick: { block_sizes: [4, 32] }"))
    assert narrowed(load(path, "quick"), ["block"], [12]).study.scope == "quick"


def test_an_error_names_a_variant_that_supports_none_of_the_sizes(path):
    with pytest.raises(ConfigError, match=r"^sgemm_top_graph: supports none of the sizes 2048; "):
        narrowed(load(path), ["sgemm_top_graph"], [2048])
    with pytest.raises(ConfigError, match=r"unknown variant blok; did you mean block\?"):
        narrowed(load(path), ["blok"], [8])


@pytest.mark.slow
def test_the_printed_answer_lists_every_kernel_once_the_fastest_first(gpu_recording):
    samples = gpu_recording.samples.rename(columns={"in_run_kernel_s": "kernel_s"})
    on_gpu = samples["device"] != "cpu"
    recording = replace(gpu_recording, kernels=samples[on_gpu])
    kernels = recording.kernels
    squares = kernels[(kernels["m"] == kernels["n"]) & (kernels["dtype"] == "float32")]
    largest = squares["n"].max()
    own = squares[squares["n"] == largest].assign(block=lambda rows: rows["block_size"].fillna(0))
    own = own[own["batch"] == 1]
    medians = own.groupby(["variant", "block"])["kernel_s"].median()
    variant, block = medians.idxmin()
    lines = answer(recording)
    rows = [line for line in lines if re.match(rf"  \w+ +\S+ +{largest} +float32", line)]
    on_cpu = next(at for at, line in enumerate(lines) if line.endswith("(cpu)"))
    of_gpu = [line for line in rows if lines.index(line) < on_cpu]
    assert len(of_gpu) == len(medians)
    assert of_gpu[0].split()[:2] == [variant, str(block or "–")]
    assert of_gpu[0].split()[4] == f"{medians.min() * 1e3:.4g}"
    assert f"  {2 * int(largest) ** 3 / medians.min() / 1e12:.4g}  " in of_gpu[0]
    assert "of cuBLAS" in lines[1]
    assert lines[on_cpu + 1].endswith("end-to-end ms")
    assert any(re.search("not launchable: needs .* threads", line) for line in lines)
