"""The bundle: from the archive to a recording without installed packages and without network."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib.util import cache_from_source
from pathlib import Path

import pytest
import yaml

from measurement.recorder import bundle
from measurement.recording import recording
from tests.support.fakes import CONFIG
from tests.support.studies import CPU, with_short_ceilings

pytestmark = pytest.mark.slow
ALONE = ["unshare", "--map-root-user", "--net"]


def test_the_bundle_contains_the_settings_of_config_local_yaml(tmp_path, patch):
    for name in (*bundle.FILES, "config.yaml", "config.local.yaml"):
        (tmp_path / name).write_text(name)
    patch(bundle, ROOT=tmp_path, FOLDERS=(), with_dependencies=lambda _: ())
    bundle.pack(tmp_path / "bundle", [])
    assert (tmp_path / "bundle" / "config.local.yaml").read_text() == "config.local.yaml"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of an unpacked bundle, with a study that takes seconds."""
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces are not allowed here")
    base = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, "-m", "workflow", "bundle", "--out"]
    subprocess.run([*command, base / "bundle.tar.gz"], check=True, capture_output=True)
    with tarfile.open(base / "bundle.tar.gz") as archive:
        archive.extractall(base, filter="data")
    (base / "bundle.tar.gz").unlink()
    packages, installed = base / "gemm-study" / "packages", Path(sysconfig.get_path("purelib"))
    for path in packages.rglob("*.py"):  # with bytecode, which takes seconds to make
        original = installed / path.relative_to(packages)
        if (made := Path(cache_from_source(original))).exists():
            path.with_name("__pycache__").mkdir(exist_ok=True)
            shutil.copy(made, path.with_name("__pycache__"))
            shutil.copystat(original, path)
    with_short_ceilings(base / "gemm-study")
    config = yaml.safe_load(CONFIG)
    config["study"]["cpu"] = CPU
    (base / "gemm-study" / "small.yaml").write_text(yaml.safe_dump(config))
    return base / "gemm-study"


@pytest.fixture
def offline(unpacked, tmp_path):
    """Return a function that runs a command there, with a bare Python and no network."""
    bare = tmp_path / "bin"
    bare.mkdir()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (bare / version).symlink_to(os.path.realpath(sys.executable))
    path = os.pathsep.join([str(bare), os.defpath])

    def run(*command):
        options = {"cwd": unpacked, "env": {"PATH": path, "HOME": str(tmp_path)}, "text": True}
        alone = [shutil.which(ALONE[0]), *ALONE[1:]]
        return subprocess.run([*alone, *command], **options, capture_output=True, check=False)

    run.python = version
    return run


@pytest.mark.exhaustive
def test_the_unpacked_bundle_records_without_a_network(offline, unpacked):
    done = offline("./record", "--config", "small.yaml", "--commit", "0" * 40)
    assert done.returncode == 0, done.stderr
    made = recording.read(unpacked / "recording")
    assert set(made.checks["status"]) == {"passed"}
    assert made.provenance["git"]["commit"] == "0" * 40
    assert made.provenance["software"]["packages"]["numpy"]


@pytest.mark.exhaustive
def test_kernels_of_the_bundle_run_on_the_host_without_a_network(offline):
    kernels = ("-m", "workflow", "count", "--variant", "naive", "--block-size", "4", "--size", "8")
    done = offline("env", "PYTHONPATH=packages", offline.python, *kernels)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("variant,")


@pytest.mark.exhaustive
def test_a_bundle_run_with_another_python_version_is_a_one_line_error(offline, unpacked):
    script = (unpacked / "record").read_text()
    version = offline.python.removeprefix("python")
    (unpacked / "other").write_text(script.replace(version, "3.99"))
    done = offline("sh", "./other")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: the bundle needs Python 3.99")
