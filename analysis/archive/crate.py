"""Pack the study into a Workflow Run RO-Crate, or recordings into a Process Run Crate.

The crates follow the profiles Workflow Run Crate 0.5 and Process Run Crate 0.5 (Leo et al., PLoS
ONE 19, 2024) on RO-Crate 1.1. The study can be run again in the unpacked tree. Only persons in
``CITATION.cff`` are named; who made a recording or ran the workflow is not recorded.
"""

import hashlib
import importlib.metadata
import io
import platform
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.archive.citation import bill_of_materials, citation
from analysis.data.store import StoreError
from base.errors import StudyError
from base.files import write_atomic
from base.paths import MAKE_REPORT, ROOT
from measurement.recording.files import check_manifest, files_of, read_provenance

if TYPE_CHECKING:
    from rocrate.model.entity import Entity
    from rocrate.rocrate import ROCrate

# Folders and files of the tree that a study needs.
_FOLDERS = {
    "workflow": "rules, set-up of the environment",
    "base": "code that every other folder uses",
    "study": "configuration, products and cells of a study",
    "kernels": "kernels, their catalog and their execution on a CPU",
    "cpu_reference": "CPU implementations",
    "measurement": "measurement harness",
    "analysis": "tables, fits, figures and the report",
    "report": "template, style and vendored assets of the report",
}
_FILES = ("Makefile", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff")
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_BIOSCHEMAS = "https://bioschemas.org/profiles"
# A term of schema.org that RO-Crate 1.1 lacks, but the vocabulary of the profile has.
_TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
_SPDX = "https://spdx.org/licenses/"
_COMPLETED = "http://schema.org/CompletedActionStatus"
# Software whose version is in recordings: its title and home page.
_SOFTWARE = {
    "driver": ("NVIDIA driver", "https://www.nvidia.com/drivers"),
    "nvcc": ("CUDA compiler", "https://developer.nvidia.com/cuda-toolkit"),
    "cublas": ("cuBLAS", "https://developer.nvidia.com/cublas"),
    "gcc": ("GCC", "https://gcc.gnu.org"),
    "python": ("Python", "https://www.python.org"),
    "numpy": ("NumPy", "https://numpy.org"),
    "pycuda": ("PyCUDA", "https://documen.tician.de/pycuda"),
}
_FORMATS = {
    ".csv": "text/csv",
    ".gz": "application/gzip",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".cff": "application/yaml",
    ".toml": "application/toml",
}


@dataclass(frozen=True)
class Study:
    """What a crate of a study contains in addition to the tree at `root`.

    `config` is the effective configuration, `recordings` are folders by id, `tables` is a folder,
    `report` the page; `commit` is the commit of the tree, None without history.
    """

    config: Path
    recordings: Mapping[str, Path]
    tables: Path
    report: Path
    commit: str | None
    root: Path = ROOT


@dataclass(frozen=True)
class Recordings:
    """Recordings by id, for a crate without a study; the tree at `root` has their citation."""

    recordings: Mapping[str, Path]
    root: Path = ROOT


def write_crate(content: Study | Recordings, out: Path) -> None:
    """Write the crate of a finished study, or of recordings, to the zip file `out`.

    Raise StudyError, and write nothing, if the package rocrate or a file of the study is missing.
    """
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise StudyError("the package rocrate is missing; run `make setup LAYERS=crate`") from None
    with tempfile.TemporaryDirectory() as folder:
        crate = ROCrate(gen_preview=True, version="1.1")
        if isinstance(content, Study):
            _StudyPacker(crate, content, Path(folder)).pack()
        else:
            _Packer(crate, content, Path(folder)).pack()
        crate.write(Path(folder) / "crate")
        write_atomic(out, zipped(Path(folder) / "crate"))


def zipped(folder: Path) -> bytes:
    """Return a folder as a zip file, which has an entry for each subfolder and no dates."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            entry = zipfile.ZipInfo(f"{name}/" if path.is_dir() else name)
            entry.external_attr = (path.stat().st_mode & 0xFFFF) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, b"" if path.is_dir() else path.read_bytes())
    return buffer.getvalue()


class _Packer:
    """Fills a crate with recordings; `staging` is a folder for copies."""

    def __init__(self, crate: "ROCrate", content: Study | Recordings, staging: Path) -> None:
        self.crate = crate
        self.content = content
        self.staging = staging
        for path in content.recordings.values():
            check_manifest(path)
        self.provenances = {n: read_provenance(path) for n, path in content.recordings.items()}
        ended = [provenance["finished_utc"] for provenance in self.provenances.values()]
        self.citation = citation(content.recordings, ended, content.root)

    def pack(self) -> None:
        """Add all recordings with all of their files."""
        for name in self.content.recordings:
            self._measured(name, self._recording(name))
        ended = max(facts["finished_utc"] for facts in self.provenances.values())
        self._describe(f"Recordings of: {', '.join(self.content.recordings)}", 1, ended)
        self.crate.root_dataset["description"] = (
            f"Measured: {self._gpus()}. Each folder is a recording of: {self.citation.title}."
        )

    def _describe(self, name: str, profiles: int, finished_utc: str) -> None:
        root = self.crate.root_dataset
        root["name"] = name
        root["version"] = self.citation.version
        licence = self.citation.licence
        root["license"] = self._context(f"{_SPDX}{licence}", "CreativeWork", name=licence)
        root["author"] = self._context("#authors", "Organization", name=self.citation.authors)
        root["conformsTo"] = [
            self._context(url, "CreativeWork", name=title, version=version)
            for url, (title, version) in list(_PROFILES.items())[:profiles]
        ]
        self.crate.datePublished = datetime.fromisoformat(finished_utc).date()
        self.crate.metadata.extra_terms = _TERMS

    def _gpus(self) -> str:
        gpus = [
            f"{device['name']}{' (simulated)' if provenance['simulated'] else ''}"
            for provenance in self.provenances.values()
            for device in provenance["devices"]
        ]
        return ", ".join(dict.fromkeys(gpus)) or "no GPU"

    # ---- files

    def _file(self, path: Path, name: str, **properties: Any) -> "Entity":
        """Add a file as `name` in the crate, with its size, format and hash."""
        data = _checked(path).read_bytes()
        facts = {
            "name": name,
            "contentSize": str(len(data)),
            "encodingFormat": _FORMATS.get(path.suffix, "text/plain"),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        return self.crate.add_file(path, name, properties=facts | properties)

    def _context(self, identifier: str, kind: str, **properties: Any) -> "Entity":
        from rocrate.model.contextentity import ContextEntity

        return self.crate.add(
            ContextEntity(self.crate, identifier, properties={"@type": kind, **properties})
        )

    # ---- recordings

    def _recording(self, name: str) -> "Entity":
        """Add a recording as a folder with its files; the folder's hash is that of its manifest."""
        folder = self.content.recordings[name]
        root = self.content.root.resolve()
        inside = folder.resolve().is_relative_to(root)
        where = folder.resolve().relative_to(root) if inside else Path("data/recordings", name)
        simulated = " (simulated, not measured)" if self.provenances[name]["simulated"] else ""
        properties = {
            "name": f"recording {name}{simulated}",
            "description": self._machine(name),
            "identifier": f"sha256:{self.citation.data[name]}",
            "dateCreated": _offset(self.provenances[name]["finished_utc"]),
        }
        dataset = self.crate.add_dataset(dest_path=f"{where.as_posix()}/", properties=properties)
        for file in files_of(folder):
            dataset.append_to("hasPart", self._file(folder / file, (where / file).as_posix()))
        return dataset

    def _machine(self, name: str) -> str:
        provenance = self.provenances[name]
        gpus = [f"{d['device']}: {d['name']}" for d in provenance["devices"]] or ["no GPU"]
        return f"CPU: {provenance['host']['cpu_model']}; {'; '.join(gpus)}"

    def _measured(self, name: str, dataset: "Entity", **taken: Any) -> None:
        """Add the action that made a recording, with its software; `taken` are its inputs."""
        provenance = self.provenances[name]
        versions = {**provenance["software"], **provenance["software"].get("packages", {})}
        used = [
            self._software(title, url, str(versions[key]))
            for key, (title, url) in _SOFTWARE.items()
            if versions.get(key)
        ]
        harness = self._context(
            f"#harness-{name}",
            "SoftwareApplication",
            name="gemm-study record",
            softwareVersion=provenance["git"]["commit"] or "not known",
            softwareRequirements=used,
        )
        self._action(
            f"#measurement-{name}",
            name=f"Measurement of {name}",
            description=self._machine(name),
            startTime=_offset(provenance["started_utc"]),
            endTime=_offset(provenance["finished_utc"]),
            instrument=harness,
            **taken,
            result=dataset,
        )

    def _software(self, name: str, url: str, version: str) -> "Entity":
        about = {"name": name, "url": url, "softwareVersion": version}
        return self._context(f"{url}/#{version}", "SoftwareApplication", **about)

    def _action(self, identifier: str, **properties: Any) -> None:
        action = self._context(identifier, "CreateAction", actionStatus=_COMPLETED, **properties)
        self.crate.root_dataset.append_to("mentions", action)


class _StudyPacker(_Packer):
    """Fills a crate with a whole study."""

    def __init__(self, crate: "ROCrate", study: Study, staging: Path) -> None:
        super().__init__(crate, study, staging)
        self.study = study
        self.finished = datetime.fromtimestamp(_checked(study.report).stat().st_mtime, UTC)

    def pack(self) -> None:
        """Add the study with all of its files."""
        workflow = self._workflow()
        inputs, results = self._inputs(), self._results()
        self._parameters(workflow, "input", inputs)
        self._parameters(workflow, "output", results)
        self._run(workflow, list(chain(*inputs.values())), list(chain(*results.values())))
        for name, dataset in zip(self.study.recordings, inputs["recordings"], strict=True):
            sources = [self.crate.get(folder) for folder in ("kernels/", "cpu_reference/")]
            self._measured(name, dataset, object=sources)
        self._describe(self.citation.title, len(_PROFILES), self.finished.isoformat())
        root = self.crate.root_dataset
        root["description"] = (
            f"A run of the study with its inputs and results. Measured: {self._gpus()}. Unpacked, "
            "it runs again with `make report`."
        )
        for key in ("version", "license", "author"):
            workflow[key] = root[key]

    # ---- the workflow, its inputs and outputs

    def _workflow(self) -> "Entity":
        root = self.study.root
        version = importlib.metadata.version("snakemake")
        workflow = self.crate.add_workflow(
            _checked(root / "Snakefile"),
            "Snakefile",
            main=True,
            lang="snakemake",
            lang_version=version,
            properties={
                "name": f"{self.citation.title}: the workflow",
                "conformsTo": {"@id": f"{_BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"},
                "encodingFormat": "text/plain",
            },
        )
        if self.study.commit:
            workflow["identifier"] = f"git commit {self.study.commit}"
        compiled = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name, description in _FOLDERS.items():
            copy = shutil.copytree(root / name, self.staging / name, ignore=compiled)
            about = {"name": name, "description": description}
            self.crate.add_dataset(copy, f"{name}/", properties=about)
        for name in _FILES:
            of_root = {"about": self.crate.root_dataset} if name == "README.md" else {}
            self._file(root / name, name, **of_root)
        self._file(root / "uv.lock", "uv.lock", description="packages with versions and hashes")
        bill = self.staging / "sbom.cdx.json"
        bill.write_text(bill_of_materials())
        self._file(bill, bill.name, description="installed packages with their licences")
        return workflow

    def _inputs(self) -> dict[str, list["Entity"]]:
        config = self._file(self.study.config, "config.yaml", description="configuration")
        inputs = {"config": [config]}
        for path in sorted((self.study.root / "data" / "published").glob("*.csv")):
            name = f"data/published/{path.name}"
            inputs[path.stem] = [self._file(path, name, description="numbers of the sources")]
        return inputs | {"recordings": [self._recording(name) for name in self.study.recordings]}

    def _results(self) -> dict[str, list["Entity"]]:
        tables = sorted(self.study.tables.glob("*.csv"))
        if not tables:
            raise StoreError(f"{self.study.tables}: no tables; make them with {MAKE_REPORT}")
        about = "results of the study"
        report = self._file(self.study.report, "results/report.html", description=about)
        files = [self._file(path, f"results/tables/{path.name}") for path in tables]
        return {"report": [report], "tables": files}

    def _parameters(self, workflow: "Entity", side: str, given: dict[str, list["Entity"]]) -> None:
        for name, examples in given.items():
            if not examples:
                continue
            parameter = self._context(
                f"#{side}-{name}",
                "FormalParameter",
                name=name,
                additionalType="Dataset" if "Dataset" in examples[0].type else "File",
                conformsTo={"@id": f"{_BIOSCHEMAS}/FormalParameter/1.0-RELEASE"},
                multipleValues=len(examples) > 1,
            )
            parameter["workExample"] = examples if len(examples) > 1 else examples[0]
            for example in examples:
                example["exampleOfWork"] = parameter
            workflow.append_to(side, parameter)

    # ---- what ran

    def _run(self, workflow: "Entity", taken: list["Entity"], given: list["Entity"]) -> None:
        """Add the run of the workflow; it has no start time, because runs can be resumed."""
        engine = ("Snakemake", "https://snakemake.github.io")
        workflow["softwareRequirements"] = [
            self._software(*engine, importlib.metadata.version("snakemake")),
            self._software(*_SOFTWARE["python"], platform.python_version()),
        ]
        self._action(
            "#run",
            name="Run of the study",
            description="Tables, fits, figures and report from recordings and published numbers",
            endTime=self.finished.isoformat(timespec="seconds"),
            instrument=workflow,
            object=taken,
            result=given,
        )


def _offset(utc: str) -> str:
    """Return a time that ends in Z with an offset instead, as the profile requires."""
    return datetime.fromisoformat(utc).isoformat(timespec="seconds")


def _checked(path: Path) -> Path:
    """Return `path`; raise StoreError if it is not a file."""
    if not path.is_file():
        raise StoreError(f"{path} is missing; make it with {MAKE_REPORT}")
    return path
