"""The configuration: valid values, and one-line errors for invalid ones."""

import copy
import operator
import os
import re
from pathlib import Path
from string import Template

import pytest
import yaml

from kernels.catalog.entries import VARIANTS
from study.config import Gpu, load, validate
from study.config_file import ConfigError, dump, in_scope, read, replaced_by_quick
from tests.support import ROOT

CONFIG = """
study:
  seed: 1
  dtypes: [float32]
  sizes: [256, 512, 1024]
  holdout_sizes: [384]
  variants: [naive, block]
  block_sizes: [8, 16, 32]
  host_memory: [pinned, pageable]
  cpu: { variants: [naive, blocked], sizes: [256], block_sizes: [64], threads: [1] }
  protocol: { confidence: 0.95, samples: 60, gpu_cell_budget_s: 1, cpu_cell_budget_s: 2.5,
    single_run_s: 3, warm_up_s: 0.001,
    cpu_warm_run_s: 0, caches: flushed, cold_starts: 0, hang_limit_s: 60 }
gpus:
  - { id: local, device: auto }
"""


@pytest.fixture
def config():
    return yaml.safe_load(CONFIG)


def set_at(config, path, value):
    changed = place = copy.deepcopy(config)
    *steps, last = (int(s) if s.isdigit() else s for s in re.findall(r"\w+", path))
    for step in steps:
        place = place[step]
    if isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return changed


def fault(config):
    with pytest.raises(ConfigError) as refused:
        validate(config, "config.yaml")
    message = str(refused.value)
    assert "\n" not in message
    assert message.startswith("config.yaml: ")
    return message.removeprefix("config.yaml: ")


def test_a_valid_configuration_is_returned_unchanged(config, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    assert load(file).plain() == config
    assert load(ROOT / "config.yaml").study.dtypes == ["float32"]


QUICK = {"sizes": [256], "cpu": {"sizes": [128]}, "protocol": {"cpu_cell_budget_s": 0.5}}


def test_quick_values_override_those_of_the_study(config):
    config["study"]["quick"] = QUICK
    full = validate(config, "config.yaml").study
    assert (full.scope, full.sizes, full.cpu.sizes) == ("full", [256, 512, 1024], [256])
    config["study"]["scope"] = "quick"
    quick = validate(config, "config.yaml").study
    assert (quick.scope, quick.sizes, quick.cpu.sizes) == ("quick", [256], [128])
    assert quick.cpu.variants == full.cpu.variants
    assert quick.protocol.cpu_cell_budget_s == 0.5
    assert quick.protocol.hang_limit_s == full.protocol.hang_limit_s
    assert (quick.plain()["scope"], quick.plain()["cpu"]["sizes"]) == ("quick", [128])
    assert "quick" not in quick.plain(), "unused values do not change a recording's task"


@pytest.mark.parametrize("scope", ["quick", "full"])
@pytest.mark.parametrize(
    ("quick", "message"),
    [
        ({"sizs": [8]}, "unknown key sizs; did you mean sizes? "),
        ({"cpu": {"sizes": [0]}}, "0 is not allowed; use a whole number from 1 to 46340"),
        ({"protocol": {"samples": 0}}, "0 is not allowed; use a whole number from 1 to 1000000"),
    ],
)
def test_wrong_quick_values_are_refused_in_every_scope(config, scope, quick, message):
    config["study"] |= {"scope": scope, "quick": quick}
    assert message in fault(config)


SERIES = {
    "variants": ["mm_tile", "bmm_naive"],
    "dtypes": ["int32", "float64"],
    "block_sizes": [8],
    "shapes": [64, "17x33x65"],
}
WORDS = {
    "no_shape": "is not allowed; use a whole number from 1, or a text such as 17x33x65 (MxKxN) or "
    "3x17x33x65 (BATCHxMxKxN), with less than 2^31 elements per matrix",
    "nothing": "supports none of the series' shapes with its dtypes and block_sizes; see "
    "`gemm-study list`",
    "kinds": "use exactly one of recording (a folder), recordings (folders, each a session), "
    "device (auto, a CUDA index or a GPU's name) and slurm (a GPU model)",
    "gpu": f"allowed: {', '.join(VARIANTS)}",
    "cpu": "allowed: naive, loop_order, column_buffered, blocked, packed, blas, mkl, blis",
    "keys": "variants, sizes, shapes, size_limits, block_sizes, threads",
    "of_gpus": "id, recording, recordings, device, slurm, at_once",
    "limit": "largest_size? allowed: block_size, smallest_size, largest_size",
    "other_block": "the block size of the baseline naive; add it, or remove naive",
    "a": "id: a, recording: data/recordings/a",
}
# Two lines per case: the key and its value; the message.
MISTAKES = Path(__file__).with_name("mistakes.txt").read_text()
LINES = Template(MISTAKES.strip()).substitute(WORDS).split("\n")


@pytest.mark.parametrize(("change", "message"), [*zip(LINES[::2], LINES[1::2], strict=True)])
def test_an_error_in_the_configuration_names_key_and_allowed_values(config, change, message):
    path, value = change.split(" = ")
    config["study"]["series"] = [copy.deepcopy(SERIES) for _ in range(2)]
    assert fault(set_at(config, path, yaml.safe_load(value))) == message


def test_series_of_any_shapes_and_types_are_allowed(config):
    shapes = [64, "64", "17x33x65", "3x17x33x65"]
    config["study"]["series"] = [SERIES, SERIES | {"dtypes": ["float32"], "shapes": shapes}]
    assert validate(config, "config.yaml").plain() == config
    config["study"]["series"] = [{**SERIES, "variants": ["buffered_row"]}]
    config["study"]["series"][0] |= {"dtypes": ["float32"], "block_sizes": [], "shapes": [7]}
    assert validate(config, "config.yaml").plain() == config
    config["study"]["series"] = []
    assert validate(config, "config.yaml").plain() == config


def test_an_error_names_a_missing_key(config):
    config["study"]["series"] = [{key: SERIES[key] for key in ("variants", "dtypes", "shapes")}]
    required = "(required: variants, dtypes, block_sizes, shapes)"
    assert fault(config) == f"study.series[0]: missing block_sizes; add it {required}"
    del config["study"]["series"], config["study"]["cpu"]["sizes"]
    required = "(required: variants, sizes, block_sizes, threads)"
    assert fault(config) == f"study.cpu: missing sizes; add it {required}"


@pytest.mark.parametrize(
    "changes",
    [
        {"variants": ["sgemm_top_graph"], "host_memory": ["pageable"]},
        {"variants": ["sgemm_top_graph"], "sizes": [2048], "holdout_sizes": []},
        {"block_sizes": [32], "block_size_limits": [{"block_size": 32, "largest_size": 9}]},
    ],
)
def test_a_configuration_without_any_product_to_measure_is_refused(config, changes):
    config["study"] |= changes
    assert fault(config).startswith("study: its variants support none of its sizes with block")


def test_an_entry_of_gpus_may_list_several_recordings(config):
    config["gpus"] = [{"id": "a", "recordings": ["one", "two"]}, {"id": "b", "recording": "three"}]
    config["gpus"].append({"id": "c-gpu1", "device": 0})  # as a GPU of c, which is no entry
    found = validate(config, "config.yaml").gpus
    assert [gpu.folders for gpu in found] == [["one", "two"], ["three"], []]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("study: [1\ngpus: 2\n", "line 2, column 5: "),
        ("gpus: []\nstudy: {}\ngpus: []\n", "line 3, column 1: the key gpus is given twice"),
        ("study:\n\tsizes: [1]\n", "line 2, column 1: "),
        ('{"\\ud800": 1}', "a text contains a surrogate"),
    ],
)
def test_an_error_in_yaml_names_line_and_column(tmp_path, text, place):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert str(refused.value).startswith(f"{file}: {place}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not valid UTF-8"),
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.touch() or os.truncate(path, 2**31), "larger than 65536 bytes"),
        (
            lambda path: path.write_text("[\n" * 9000),
            "has too many nested levels; correct the YAML",
        ),
    ],
)
@pytest.mark.parametrize("name", ["config.yaml", "config.local.yaml"])
def test_an_error_names_a_configuration_file_that_cannot_be_read(tmp_path, make, message, name):
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{re.escape(str(tmp_path / name))}: {message}"):
        load(tmp_path / "config.yaml")


# The user's own file, and a value of the study in the scope "quick".
LOCAL = """
  quick: { block_sizes: [8, 32], holdout_sizes: [], cpu: { block_sizes: [32], sizes: [64] } }
  energy: { sizes: [256], length_s: 1.0 }
gpus: [{ id: local, device: auto }]
report: { focus: local }
"""


@pytest.mark.parametrize(
    ("own", "path", "value"),
    [
        ("# nothing yet", "study.seed", 1),
        ("\ufeffstudy:\r\n  seed: 2\r\n", "study.seed", 2),
        ("study:\n  sizes:\t[9,\t8]\t# mine\n", "study.sizes", [9, 8]),
        ("study: { cpu: { block_sizes: [16] } }", "study.cpu.block_sizes", [16]),
        ("study: { holdout_sizes: [9] }", "study.holdout_sizes", [9]),
        ("study: { seed: 3, quick: { seed: 4 } }", "study.seed", 4),
        ("study: { quick: { holdout_sizes: null } }", "study.holdout_sizes", [384]),
        ("study: { quick: null }", "study.cpu.block_sizes", [64]),
        ("toolchain: { nvcc: null }", "toolchain.nvcc", None),
        ("report:", "report.focus", None),
        ("gpus: [{ id: mine, device: 0 }]", "report.focus", None),
        ("gpus: [{ id: mine, device: 0 }, { id: local, device: 1 }]", "report.focus", "local"),
        ("study: { sizes: [1777, 9, 1777, 384] }", "study.sizes", [1777, 9, 384]),
        ("study: { protocol: { warm_up_s: 1e-3 } }", "study.protocol.warm_up_s", 0.001),
        ("gpus: [{ id: on, device: 0 }]", "gpus", [Gpu(id="on", device=0)]),
    ],
)
def test_values_of_config_local_yaml_also_apply_in_the_quick_scope(tmp_path, own, path, value):
    (tmp_path / "config.yaml").write_text(CONFIG.partition("gpus:")[0] + LOCAL)
    (tmp_path / "config.local.yaml").write_text(own, newline="")
    found = load(tmp_path / "config.yaml", "quick")
    assert operator.attrgetter(path)(found) == value


def test_values_of_a_further_configuration_file_override_both(tmp_path):
    file, local, more = (tmp_path / f"{name}.yaml" for name in ("config", "config.local", "more"))
    file.write_text(CONFIG.partition("gpus:")[0] + LOCAL)
    local.write_text("study: { sizes: [64], holdout_sizes: [96] }")
    more.write_text("study: { sizes: [128], energy: null, cpu: { sizes: [256] } }")
    content = in_scope(read(file, more), "quick")
    study = validate(content, "config.yaml").study
    assert (study.sizes, study.holdout_sizes, study.energy) == ([128], [96], None)
    assert (study.cpu.sizes, study.cpu.block_sizes) == ([256], [32])
    before = "study: { block_sizes: [4], cpu: { threads: [1] } }"
    assert replaced_by_quick(content, before) == ["block_sizes", "cpu.block_sizes"]
    assert replaced_by_quick(content, file.read_text()) == [], "nothing was edited"
    assert replaced_by_quick(content, "") == [], "unknown"
    assert replaced_by_quick(in_scope(content, "full"), before) == []
    assert replaced_by_quick({"study": 1}, before) == []


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("false", "not a mapping of keys to values; use keys as in "),
        ("study: { seed: 1 }\n---\nstudy: { seed: 2 }", "expected a single document in the stream"),
        ("study: { seed: 1, 'seed': 2 }", "line 1, column 19: the key seed is given twice"),
        ("study: { <<: { seed: 2 } }", "study: unknown key <<; "),
        ("[a]: 1", "line 1, column 1: a key is not a text; "),
        ("study: { sizes: [012] }", "study.sizes[0]: '012' is not allowed; use a whole number"),
        ("study: { sizes: [1:30] }", "study.sizes[0]: '1:30' is not allowed; use a whole number"),
        ("study:\n\tseed: 1", "line 2, column 1: while scanning for the next token, found a tab"),
        ("gpus: [{ id: 5090, device: 0 }]", "[0].id: 5090 is not allowed; use up to 64 letters"),
        ("gpus: [{ id: 5090, device: 0 }]", "the first a letter or digit, in quotes"),
        ("gpus: [{ id: true, device: 0 }]", "the first a letter or digit, in quotes"),
        ("report: { focus: 5090 }", "5090 is not allowed; use one line of text, in quotes"),
        (
            "study: { seed: '12' }",
            "study.seed: '12' is not allowed; use a whole number from 0 to 2^53, without quotes",
        ),
        ("study: { seed: 1_0 }", "study.seed: '1_0' is not allowed; use a whole number"),
        ("study: { seed: 0x10 }", "study.seed: '0x10' is not allowed; use a whole number"),
        ("study: { seed: 1e3 }", "study.seed: 1000.0 is not allowed; use a whole number"),
        ("gpus: [{ id: a, device: 0, at_once: yes }]", "gpus[0].at_once: 'yes' is not"),
        ("study: { quick: { scope: full } }", "study.quick: scope is not a value that quick can"),
        ("study: { cpu: }", "study: missing cpu; add it"),
        ("report: { focus: h100 }", "report: focus: h100 is not in gpus; use one of local"),
    ],
)
def test_a_value_that_another_reader_of_yaml_would_change_is_refused(tmp_path, own, message):
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "config.local.yaml").write_text(own)
    with pytest.raises(ConfigError, match=rf"config\.local\.yaml: .*{re.escape(message)}"):
        load(tmp_path / "config.yaml", "quick")


def test_a_written_configuration_is_read_identically_by_a_yaml_1_1_reader(tmp_path):
    content = {"texts": ["1e3", "012", "on", "1:30", "null", "a: b", "\x85"], "number": 0.001}
    (tmp_path / "config.yaml").write_text(dump(content))
    assert read(tmp_path / "config.yaml") == yaml.safe_load(dump(content)) == content
