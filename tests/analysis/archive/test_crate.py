"""The RO-Crate: its contents, its validity, and a second run of the packed study."""

import hashlib
import importlib.metadata
import importlib.resources
import json
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.archive.crate import Study, write_crate
from analysis.data.recordings import ROOT
from analysis.data.store import StoreError
from base.errors import StudyError
from measurement.recording.files import files_of
from tests.support.report_data import chain
from tests.support.simulated import FEW, SOFTWARE

pytestmark = pytest.mark.slow

pytest.importorskip("rocrate", reason="the package rocrate is not installed")
CONTEXT = "https://w3id.org/ro/crate/1.1/context"


@pytest.fixture(scope="module")
def study(make_recording, tmp_path_factory):
    """A study of a simulated GPU and of a host without one."""
    base = tmp_path_factory.mktemp("study")
    sizes = {"sizes": (256,), "holdout": (), "samples": 6, "variants": FEW}
    known = {"driver": "550.1", "nvcc": "13.2", "python": "3.12.3", "packages": {"numpy": "2.4"}}
    software = dict.fromkeys(SOFTWARE) | known
    made = {"card": make_recording(base / "card", software=software, **sizes)}
    made["host"] = make_recording(base / "host", gpus=0, simulated=False, seed=1, **sizes)
    recordings = {name: each.path for name, each in made.items()}
    (recordings["card"] / "thesis.txt").write_text("years of work")
    (recordings["card"] / "passwords").symlink_to("/etc/passwd")
    tables = chain(recordings)
    (base / "report.html").write_text("<!doctype html>")
    (base / "config.yaml").write_text("gpus: []\n")
    commit = "0123456789abcdef0123456789abcdef01234567"
    return Study(base / "config.yaml", recordings, tables, base / "report.html", commit)


@pytest.fixture(scope="module")
def packed(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("crate") / "ro-crate.zip"
    write_crate(study, out)
    return out


@pytest.fixture(scope="module")
def contents(packed):
    with zipfile.ZipFile(packed) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def entities(metadata):
    return {entity["@id"]: entity for entity in json.loads(metadata)["@graph"]}


@pytest.fixture(scope="module")
def graph(contents):
    return entities(contents["ro-crate-metadata.json"])


def test_a_crate_contains_only_files_of_the_recording_and_no_local_path(contents, study):
    names = [name for name in contents if name.startswith("data/recordings/card/")]
    files = files_of(study.recordings["card"])
    assert sorted(names) == sorted(f"data/recordings/card/{name}" for name in ["", *files])
    for name in ("ro-crate-metadata.json", "ro-crate-preview.html"):
        for path in (ROOT, study.tables.parent):
            assert str(path) not in contents[name].decode()
    assert not [name for name in contents if "__pycache__" in name]


def ids(value):
    return {one["@id"] for one in (value if isinstance(value, list) else [value])}


def context():
    """Return the JSON-LD context of RO-Crate 1.1.

    The package carries that of 1.3, in which these terms mean something else.
    """
    data = importlib.resources.files("rocrate") / "data" / "ro-crate.jsonld"
    document = json.loads(data.read_text())
    del document["@context"]["sha256"]
    for term in ("ComputationalWorkflow", "FormalParameter"):
        document["@context"][term] = f"https://bioschemas.org/{term}"
    for term in ("input", "output"):
        document["@context"][term] = f"https://bioschemas.org/ComputationalWorkflow#{term}"
    return document


@pytest.fixture
def issues(monkeypatch):
    """Return a function that validates a crate and returns the messages by severity."""
    pytest.importorskip("rocrate_validator", reason="the validator of crates is not installed")
    from rocrate_validator import models, services
    from rocrate_validator.utils.http import HttpRequester

    def get(_self, url, *_arguments, **_options):
        assert url == CONTEXT, "nothing else is fetched"
        facts = {"status_code": 200, "headers": {"Content-Type": "application/ld+json"}}
        return SimpleNamespace(**facts, text=json.dumps(context()), json=context)

    monkeypatch.setattr(HttpRequester, "get", get, raising=False)

    def validate(path, profile="workflow-run-crate"):
        options = {"requirement_severity": models.Severity.RECOMMENDED}
        options |= {"rocrate_uri": str(path), "profile_identifier": profile}
        found = services.validate(services.ValidationSettings(**options)).get_issues()
        messages = {"REQUIRED": set(), "RECOMMENDED": set()}
        for issue in found:
            messages[issue.severity.name].add(issue.message)
        return messages

    return validate


# The recordings name no person, the study has no home page, and the publisher is not known.
NOT_KNOWN = {
    "The Action SHOULD have an agent that is a Person or Organization",
    "The Application SHOULD have a url",
    "The SoftwareApplication id SHOULD be an absolute URI",
    "The organization SHOULD have a URL.",
    "The `publisher` property of a `Root Data Entity` SHOULD be an `Organization`",
}


def test_a_crate_is_valid_and_the_validator_finds_a_missing_property(packed, issues, tmp_path):
    found = issues(packed)
    assert found["REQUIRED"] == set()
    assert found["RECOMMENDED"] <= NOT_KNOWN
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    described = json.loads((tmp_path / "ro-crate-metadata.json").read_text())
    del next(one for one in described["@graph"] if one["@id"] == "#run")["instrument"]
    (tmp_path / "ro-crate-metadata.json").write_text(json.dumps(described))
    assert any("instrument" in message for message in issues(tmp_path)["REQUIRED"])


def test_a_crate_of_recordings_has_the_hash_of_their_citation(study, issues, tmp_path, command):
    out, folder = tmp_path / "card.zip", study.recordings["card"]
    done = command("crate", f"--recording=card={folder}", "--out", out)
    assert done.returncode == 0, done.stderr
    assert issues(out, "process-run-crate")["REQUIRED"] == set()
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path)
    card = entities((tmp_path / "ro-crate-metadata.json").read_text())["data/recordings/card/"]
    manifest = (tmp_path / "data" / "recordings" / "card" / "MANIFEST.sha256").read_bytes()
    assert card["identifier"] == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    assert {Path(name).name for name in ids(card["hasPart"])} == set(files_of(folder))
    given = f"--recording=card={folder}", "--config", study.config  # half a study is no crate
    done = command("crate", *given, "--out", tmp_path / "out.zip")
    assert done.returncode == 2
    assert "use --config, --tables and --report" in done.stderr


def test_files_have_the_stated_hashes_and_packages_the_stated_licences(contents, graph):
    files = {name: entity for name, entity in graph.items() if "sha256" in entity}
    assert len(files) > 40
    for name, entity in files.items():
        assert entity["sha256"] == hashlib.sha256(contents[name]).hexdigest()
        assert entity["contentSize"] == str(len(contents[name]))
    bill = json.loads(contents["sbom.cdx.json"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    named = {one["name"]: one for one in bill["components"]}
    assert named["numpy"]["purl"] == f"pkg:pypi/numpy@{importlib.metadata.version('numpy')}"
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    needs = {one["name"]: {n["name"] for n in one.get("dependencies", ())} for one in packages}
    locked = {"gemm-study"}  # and what it needs without extras and groups
    while more := {each for name in locked for each in needs[name]} - locked:
        locked |= more
    assert len(locked & set(named)) > 20
    assert not [n for n in locked & set(named) if "unknown" in str(named[n]["licenses"])]


def test_the_metadata_of_a_crate_name_inputs_outputs_measurements_licence_and_authors(graph, study):
    workflow, run, root = graph["Snakefile"], graph["#run"], graph["./"]
    parameters = [graph[name] for name in ids(workflow["input"]) | ids(workflow["output"])]
    examples = {one["name"]: ids(one["workExample"]) for one in parameters}
    published = {path.stem for path in (ROOT / "data" / "published").glob("*.csv")}
    assert set(examples) == {"config", "recordings", "report", "tables", *published}
    assert examples["recordings"] == {"data/recordings/card/", "data/recordings/host/"}
    assert len(examples["tables"]) == len(list(study.tables.glob("*.csv")))
    taken = (examples[name] for name in ("config", "recordings", *published))
    assert ids(run["object"]) == set.union(*taken)
    assert ids(run["result"]) == examples["report"] | examples["tables"]
    card, host = graph["#measurement-card"], graph["#measurement-host"]
    times = [f"2024-01-01T00:{minute}:00+00:00" for minute in ("00", "10")]
    assert [card["startTime"], card["endTime"]] == times
    assert ids(card["result"]) == {"data/recordings/card/"}
    assert "Simulated GPU" in card["description"]
    assert "no GPU" in host["description"]
    assert "simulated, not measured" in graph["data/recordings/card/"]["name"]
    assert "simulated" not in graph["data/recordings/host/"]["name"]
    used = [graph[one] for one in ids(graph["#harness-card"]["softwareRequirements"])]
    versions = {"NVIDIA driver": "550.1", "CUDA compiler": "13.2"}
    versions |= {"Python": "3.12.3", "NumPy": "2.4"}
    assert {one["name"]: one["softwareVersion"] for one in used} == versions
    assert ids(root["license"]) == {"https://spdx.org/licenses/MIT"}
    (author,) = ids(root["author"])
    assert graph[author]["name"] == "The gemm-study authors"
    assert not any("Person" in each["@type"] or "agent" in each for each in graph.values())


def test_the_named_commands_run_in_the_unpacked_crate(packed, tmp_path):
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    for name in ("Makefile", "uv.lock", "workflow/set-up.sh", "config.yaml"):
        assert (tmp_path / name).is_file(), name
    out = tmp_path / "made"
    times = (tmp_path / "data" / "published" / "times.csv").read_text().splitlines()
    (tmp_path / "few.csv").write_text("\n".join(times[:3]))  # of which there is no model to fit
    command = [sys.executable, "-m", "workflow", "tables", "--out", out, "--published=few.csv"]
    command += [f"--{name}=data/published/{name}.csv" for name in ("systems", "statements")]
    command += ["--recording=host=data/recordings/host"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (out / "models.csv").is_file()


@pytest.mark.parametrize(
    ("field", "words"),
    [("report", "report.html is missing"), ("config", "missing"), ("tables", "no tables")],
)
def test_a_missing_input_of_a_crate_is_a_one_line_error_and_leaves_no_file(
    study, tmp_path, field, words, monkeypatch
):
    with pytest.raises(StoreError, match=words) as error:
        write_crate(replace(study, **{field: tmp_path / "report.html"}), tmp_path / "out.zip")
    assert "\n" not in str(error.value)
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(StudyError, match="run `make setup LAYERS=crate`"):
        write_crate(study, tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()
