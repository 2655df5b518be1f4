"""Finding the compiler: configured, on PATH, or of the wheels."""

import re

import pytest

from base.errors import StudyError
from kernels.cubins import toolchain
from tests.support.compilers import program, stand_in


@pytest.fixture
def compilers(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    paths = {"purelib": str(tmp_path / "site")}
    monkeypatch.setattr(toolchain.sysconfig, "get_paths", lambda: paths)
    return {
        "configured": stand_in(tmp_path / "mine" / "nvcc", ""),
        "path": stand_in(tmp_path / "bin" / "nvcc", ""),
        "wheel": stand_in(tmp_path / "site" / "nvidia" / "cu13" / "bin" / "nvcc", ""),
    }


def test_the_configured_nvcc_precedes_those_on_path_and_from_wheels(compilers):
    assert toolchain.find_nvcc(str(compilers["configured"])) == compilers["configured"]
    assert toolchain.find_nvcc() == compilers["path"]
    assert toolchain.find_nvcc("") == compilers["path"]
    compilers["path"].unlink()
    assert toolchain.find_nvcc() == compilers["wheel"]


def test_a_configured_nvcc_is_never_replaced_by_another_one(compilers, tmp_path):
    wrong = tmp_path / "mine" / "nvc"
    with pytest.raises(StudyError, match=rf"^toolchain\.nvcc: {wrong} is not a program; correct"):
        toolchain.find_nvcc(str(wrong))
    compilers["configured"].chmod(0o644)
    with pytest.raises(StudyError, match="is not a program"):
        toolchain.find_nvcc(str(compilers["configured"]))


def test_version_and_architectures_are_read_from_the_compiler(compilers, tmp_path):
    assert toolchain.nvcc_version(compilers["path"]) == "13.9.7"
    nvcc = program(tmp_path / "nvcc", "printf 'sm_100\\nsm_75\\nsm_90\\n'")
    assert toolchain.list_architectures(nvcc) == ["sm_75", "sm_90", "sm_100"]
    other = program(tmp_path / "other", "echo gcc 12")
    with pytest.raises(StudyError, match="other: --version prints no release"):
        toolchain.nvcc_version(other)
    other = tmp_path / "data"
    other.write_bytes(b"\x7fELF")
    other.chmod(0o755)
    with pytest.raises(StudyError, match=r"data: cannot run \(Exec format error\)"):
        toolchain.nvcc_version(other)


def test_a_missing_nvcc_is_a_one_line_error(compilers, command):
    compilers["path"].unlink()
    compilers["wheel"].unlink()
    done = command("build", "--architecture", "sm_90", "--out", "out")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.match(r"error: nvcc: not found on PATH or .* install a CUDA", done.stderr)
