"""A finished recording is replaced only on request, and only by one that contains as much."""

import re
import shutil
from dataclasses import replace

import pytest
import yaml

from base.errors import StudyError
from measurement.recorder import record as recorder
from measurement.recorder import target
from measurement.recording import recording
from measurement.recording.journal import journal_folder
from study.config import validate
from tests.support.fakes import CONFIG, FakeHardware

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.fixture
def config():
    return yaml.safe_load(CONFIG)


@pytest.fixture
def host(tmp_path):
    """This host without a GPU."""
    (tmp_path / "hardware").mkdir()
    return replace(FakeHardware(tmp_path / "hardware"), gpus=0)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_command_record_replaces_a_recording_only_with_overwrite(
    config, host, tmp_path, monkeypatch, command
):
    monkeypatch.setattr(recorder, "Host", lambda: host)
    file, out = tmp_path / "config.yaml", tmp_path / "r"
    options = ["record", "--config", file, "--out", out]
    for sizes, more, fault in (
        ([8, 12], [], None),
        ([8, 12], [], r"contains a finished recording; name another folder, or add --overwrite"),
        ([8], ["--overwrite"], r"contains 3 configurations that this study lacks, such as .*"),
        ([8, 12], ["--overwrite"], None),
    ):
        config["study"]["cpu"]["sizes"] = sizes
        file.write_text(yaml.safe_dump(config))
        before = content(out) if out.exists() else {}
        done = command(*options, *more)
        assert done.returncode == (2 if fault else 0)
        if fault:
            assert re.fullmatch(rf"error: {out}: {fault}\n", done.stderr)
            assert content(out) == before
        else:
            read = recording.read(out)
            last = done.stderr.splitlines()[-1]
            assert last == f"{out}: {len(read.samples)} samples; cells: 6 passed"
            assert content(out) != before
    names = ["config.yaml", "hardware", "r"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_recording_of_another_host_or_gpu_is_never_replaced(
    config, host, make_recording, tmp_path, monkeypatch
):
    out = tmp_path / "r"
    make_recording(out)
    before = content(out)
    study = validate(config, "config.yaml")
    with pytest.raises(StudyError, match=f"{out}: contains a recording of another host; name"):
        recorder.record(study, "auto", out, None, hardware=host, overwrite=True)
    own = recording.read(out).provenance["host"]
    monkeypatch.setattr(target.provenance, "host", lambda: own)
    with pytest.raises(StudyError, match=f"{out}: contains a recording of Simulated GPU; name"):
        recorder.record(study, "auto", out, None, hardware=host, overwrite=True)
    assert content(out) == before


def test_a_recorder_killed_after_writing_resumes_without_overwrite(config, host, tmp_path):
    out, study = tmp_path / "r", validate(config, "config.yaml")
    kept = tmp_path / "kept"
    write = recording.write

    def write_and_keep(*arguments):
        shutil.copytree(journal_folder(out), kept)
        return write(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder.recording, "write", write_and_keep)
        first = recorder.record(study, "auto", out, None, hardware=host)
    kept.rename(journal_folder(out))  # as it is after a kill
    again = recorder.record(study, "auto", out, None, hardware=host)
    assert again.samples.equals(first.samples)
    assert not journal_folder(out).exists()


def test_each_small_recording_gets_a_new_numbered_folder(make_recording, tmp_path):
    assert target.unused(tmp_path / "q") == tmp_path / "q"
    make_recording(tmp_path / "q")
    assert target.unused(tmp_path / "q") == tmp_path / "q-2"
    make_recording(tmp_path / "q-2")
    assert target.unused(tmp_path / "q") == tmp_path / "q-3"
