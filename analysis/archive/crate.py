"""Pack the study into a Workflow Run RO-Crate: workflow, inputs, results, and what made them.

Recordings alone are packed into a Process Run Crate.

Profiles: Workflow Run Crate 0.5 and Process Run Crate 0.5 (Leo et al., PLoS ONE 19, 2024) on
RO-Crate 1.1. Unpacked, the crate is a tree in which the study runs again. Nobody is named in it who
is not in ``CITATION.cff``: who ran a recording or the workflow is not recorded.
"""

import hashlib
import importlib.metadata
import io
import platform
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.archive.citation import Citation, citation
from analysis.archive.sbom import bill_of_materials
from analysis.data.store import StoreError
from base.errors import StudyError
from base.files import write_atomic
from base.paths import ROOT
from measurement.recording.files import check_manifest, files_of, read_provenance

if TYPE_CHECKING:
    from rocrate.model.entity import Entity
    from rocrate.rocrate import ROCrate

# What the study runs from, besides its configuration and recordings.
_FOLDERS = {
    "workflow": "rules, the set-up of the environment",
    "base": "code that every other folder uses",
    "study": "configuration, products and cells of a study",
    "kernels": "the kernels, their catalog and what executes them on a CPU",
    "cpu_reference": "the CPU's side",
    "measurement": "the harness that measured",
    "analysis": "tables, fits, figures and the report",
    "report": "the report's template, style and vendored assets",
}
_FILES = ("Makefile", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff")
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
# RO-Crate 1.1 does not know this term of schema.org's; the profile's vocabulary does.
_TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
_SPDX = "https://spdx.org/licenses/"
_COMPLETED = "http://schema.org/CompletedActionStatus"
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
    """What goes into a crate, besides the tree at `root`.

    `config` is the configuration in force, `recordings` are folders by id, `tables` the folder of
    the tables, `report` the page; `commit` is that of the tree, None where it has no history.
    """

    config: Path
    recordings: Mapping[str, Path]
    tables: Path
    report: Path
    commit: str | None
    root: Path = ROOT


@dataclass(frozen=True)
class Recordings:
    """Recordings that are packed alone, by id; `root` is the tree that says how they are cited."""

    recordings: Mapping[str, Path]
    root: Path = ROOT


def write_crate(content: Study | Recordings, out: Path) -> None:
    """Write the crate of a finished study, or of recordings, to the zip file `out`, or nothing.

    Raises StudyError where the package rocrate or a file of the study is missing.
    """
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise StudyError(
            "the package rocrate is not installed; run `make ro-crate`, which installs it"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        crate = ROCrate(gen_preview=True, version="1.1")
        if isinstance(content, Study):
            _StudyPacker(crate, content, Path(folder)).pack()
        else:
            _Packer(crate, content, Path(folder)).pack()
        crate.write(Path(folder) / "crate")
        write_atomic(out, zipped(Path(folder) / "crate"))


def zipped(folder: Path) -> bytes:
    """Return a folder as a zip file with an entry for each folder in it, and without dates."""
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
        self.provenances = {name: _provenance(path) for name, path in content.recordings.items()}
        ended = [provenance["finished_utc"] for provenance in self.provenances.values()]
        self.citation: Citation = citation(content.recordings, ended, content.root)

    def pack(self) -> None:
        """Describe the recordings and name every file of them."""
        for name in self.content.recordings:
            self._measured(name, self._recording(name))
        ended = max(facts["finished_utc"] for facts in self.provenances.values())
        self._describe(f"Recordings of: {', '.join(self.content.recordings)}", 1, ended)
        self.crate.root_dataset["description"] = (
            f"Measured: {self._cards()}. Each folder is a recording of: {self.citation.title}."
        )

    def _describe(self, name: str, profiles: int, finished_utc: str) -> None:
        """Say what the whole is: whose, under which licence, to how many of `_PROFILES` it is."""
        root = self.crate.root_dataset
        root["name"] = name
        root["version"] = self.citation.version
        root["license"] = self._context(
            f"{_SPDX}{self.citation.licence}", "CreativeWork", name=self.citation.licence
        )
        root["author"] = self._context("#authors", "Organization", name=self.citation.authors)
        root["conformsTo"] = [
            self._context(url, "CreativeWork", name=title, version=version)
            for url, (title, version) in list(_PROFILES.items())[:profiles]
        ]
        self.crate.datePublished = datetime.fromisoformat(finished_utc).date()
        self.crate.metadata.extra_terms = _TERMS

    def _cards(self) -> str:
        """Return what was measured, by name."""
        cards = [
            f"{device['name']}{' (simulated)' if provenance['simulated'] else ''}"
            for provenance in self.provenances.values()
            for device in provenance["devices"]
        ]
        return ", ".join(dict.fromkeys(cards)) or "no GPU"

    # ---- files

    def _file(self, path: Path, place: str, **properties: Any) -> "Entity":
        """Add a file at `place` in the crate, with its size, format and hash."""
        data = _checked(path).read_bytes()
        known = {
            "name": place,
            "contentSize": str(len(data)),
            "encodingFormat": _FORMATS.get(path.suffix, "text/plain"),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        return self.crate.add_file(path, place, properties=known | properties)

    def _context(self, identifier: str, kind: str, **properties: Any) -> "Entity":
        from rocrate.model.contextentity import ContextEntity

        return self.crate.add(
            ContextEntity(self.crate, identifier, properties={"@type": kind, **properties})
        )

    # ---- recordings

    def _recording(self, name: str) -> "Entity":
        """Add a recording: a folder, every file of which is named with its hash.

        Its own is that of its manifest.
        """
        folder = self.content.recordings[name]
        place = self._place(folder, f"data/recordings/{name}")
        simulated = " (simulated, not measured)" if self.provenances[name]["simulated"] else ""
        properties = {
            "name": f"recording {name}{simulated}",
            "description": self._machine(name),
            "identifier": f"sha256:{self.citation.data[name]}",
            "dateCreated": _offset(self.provenances[name]["finished_utc"]),
        }
        dataset = self.crate.add_dataset(dest_path=f"{place}/", properties=properties)
        for file in files_of(folder):
            dataset.append_to("hasPart", self._file(folder / file, f"{place}/{file}"))
        return dataset

    def _place(self, path: Path, elsewhere: str) -> str:
        """Return where a folder of the study stands in the tree, or `elsewhere` if outside."""
        try:
            return path.resolve().relative_to(self.content.root.resolve()).as_posix()
        except ValueError:
            return elsewhere

    def _machine(self, name: str) -> str:
        """Return on what a recording was made, in a line."""
        provenance = self.provenances[name]
        cards = [f"{d['device']}: {d['name']}" for d in provenance["devices"]] or ["no GPU"]
        return f"CPU: {provenance['host']['cpu_model']}; {'; '.join(cards)}"

    def _measured(self, name: str, dataset: "Entity") -> None:
        """Add the measurement that a recording is the result of, and the software that took it."""
        provenance = self.provenances[name]
        commit = provenance["git"]["commit"]
        packages = provenance["software"].get("packages", {})
        versions = {**provenance["software"], **packages}
        used = [
            self._software(f"{url}/#{versions[key]}", title, url, str(versions[key]))
            for key, (title, url) in _SOFTWARE.items()
            if versions.get(key)
        ]
        harness = self._context(
            f"#harness-{name}",
            "SoftwareApplication",
            name="python -m measurement record",
            softwareVersion=commit or "not known",
            softwareRequirements=used,
        )
        self._action(
            f"#measurement-{name}",
            name=f"Measurement of {name}",
            description=self._machine(name),
            startTime=_offset(provenance["started_utc"]),
            endTime=_offset(provenance["finished_utc"]),
            instrument=harness,
            **self._measured_sources(),
            result=dataset,
        )

    def _measured_sources(self) -> dict[str, Any]:
        """Return what a measurement took, where that is in the crate."""
        return {}

    def _software(self, identifier: str, name: str, url: str, version: str) -> "Entity":
        return self._context(
            identifier, "SoftwareApplication", name=name, url=url, softwareVersion=version
        )

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
        """Describe the study and name every file of it."""
        workflow = self._workflow()
        inputs, recordings = self._inputs()
        results = self._results()
        self._parameters(workflow, inputs | {"recordings": recordings}, results)
        self._run(workflow, [*inputs.values(), *recordings], _flat(results.values()))
        for name, dataset in zip(self.study.recordings, recordings, strict=True):
            self._measured(name, dataset)
        self._describe(self.citation.title, len(_PROFILES), self.finished.isoformat())
        root = self.crate.root_dataset
        root["description"] = (
            f"A run of the study with its inputs and results. Measured: {self._cards()}. Unpacked, "
            "it runs again with `make report`."
        )
        for key in ("version", "license", "author"):
            workflow[key] = root[key]

    def _folder(self, name: str, description: str) -> "Entity":
        """Add a folder of the tree, without what Python left in it."""
        copy = self.staging / name
        shutil.copytree(
            self.study.root / name, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
        return self.crate.add_dataset(
            copy, f"{name}/", properties={"name": name, "description": description}
        )

    # ---- the workflow and what it takes and gives

    def _workflow(self) -> "Entity":
        """Add the Snakefile as the main workflow, with all that it includes."""
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
                "conformsTo": {"@id": _BIOSCHEMAS},
                "encodingFormat": "text/plain",
            },
        )
        if self.study.commit:
            workflow["identifier"] = f"git commit {self.study.commit}"
        for name, description in _FOLDERS.items():
            self._folder(name, description)
        for name in _FILES:
            about = {"about": self.crate.root_dataset} if name == "README.md" else {}
            self._file(root / name, name, **about)
        self._file(root / "uv.lock", "uv.lock", description="packages with versions and hashes")
        bill = self.staging / "sbom.cdx.json"
        bill.write_text(bill_of_materials())
        self._file(bill, bill.name, description="packages that were installed, with their licences")
        return workflow

    def _inputs(self) -> tuple[dict[str, "Entity"], list["Entity"]]:
        """Add configuration, published tables and recordings; return them by parameter."""
        published = self.study.root / "data" / "published"
        inputs = {
            "config": self._file(self.study.config, "config.yaml", description="what was studied"),
            **{
                path.stem: self._file(
                    path, f"data/published/{path.name}", description="from the sources"
                )
                for path in sorted(published.glob("*.csv"))
            },
        }
        return inputs, [self._recording(name) for name in self.study.recordings]

    def _results(self) -> dict[str, list["Entity"]]:
        """Add report and tables; return them by parameter."""
        tables = sorted(self.study.tables.glob("*.csv"))
        if not tables:
            raise StoreError(f"{self.study.tables} holds no tables; make them with `make report`")
        report = self._file(
            self.study.report, "results/report.html", description="what was found, for readers"
        )
        return {
            "report": [report],
            "tables": [self._file(path, f"results/tables/{path.name}") for path in tables],
        }

    def _parameters(
        self,
        workflow: "Entity",
        inputs: Mapping[str, Any],
        outputs: Mapping[str, list["Entity"]],
    ) -> None:
        """Say which files and folders are the workflow's inputs and outputs."""
        for side, entities in (("input", inputs), ("output", outputs)):
            for name, given in entities.items():
                examples = given if isinstance(given, list) else [given]
                if not examples:
                    continue
                parameter = self._context(
                    f"#{side}-{name}",
                    "FormalParameter",
                    name=name,
                    additionalType="Dataset" if "Dataset" in examples[0].type else "File",
                    conformsTo={
                        "@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
                    },
                    multipleValues=len(examples) > 1,
                )
                parameter["workExample"] = examples if len(examples) > 1 else examples[0]
                for example in examples:
                    example["exampleOfWork"] = parameter
                workflow.append_to(side, parameter)

    # ---- what ran

    def _run(self, workflow: "Entity", taken: list["Entity"], given: list["Entity"]) -> None:
        """Add the run of the workflow; when it began is not known, as it may have gone on."""
        engine = self._software(
            f"https://snakemake.github.io/#{importlib.metadata.version('snakemake')}",
            "Snakemake",
            "https://snakemake.github.io",
            importlib.metadata.version("snakemake"),
        )
        python = self._software(
            f"https://www.python.org/#{platform.python_version()}",
            "Python",
            "https://www.python.org",
            platform.python_version(),
        )
        workflow["softwareRequirements"] = [engine, python]
        self._action(
            "#run",
            name="Run of the study",
            description="Tables, fits, figures and the report made from recordings and tables",
            endTime=self.finished.isoformat(timespec="seconds"),
            instrument=workflow,
            object=taken,
            result=given,
        )

    def _measured_sources(self) -> dict[str, Any]:
        return {"object": [self.crate.get("kernels/"), self.crate.get("cpu_reference/")]}


# What a recording names the version of: title and home page.
_SOFTWARE = {
    "driver": ("NVIDIA driver", "https://www.nvidia.com/drivers"),
    "nvcc": ("CUDA compiler", "https://developer.nvidia.com/cuda-toolkit"),
    "cublas": ("cuBLAS", "https://developer.nvidia.com/cublas"),
    "gcc": ("GCC", "https://gcc.gnu.org"),
    "python": ("Python", "https://www.python.org"),
    "numpy": ("NumPy", "https://numpy.org"),
    "pycuda": ("PyCUDA", "https://documen.tician.de/pycuda"),
}


def _offset(utc: str) -> str:
    """Return a time in the form that the profile asks for, with an offset in place of Z."""
    return datetime.fromisoformat(utc).isoformat(timespec="seconds")


def _flat(lists: Iterable[list["Entity"]]) -> list["Entity"]:
    return [entity for entities in lists for entity in entities]


def _provenance(folder: Path) -> dict[str, Any]:
    """Return the provenance of a recording whose files are as they were written."""
    check_manifest(folder)
    return read_provenance(folder)


def _checked(path: Path) -> Path:
    """Return `path` where it is a file; raise StoreError naming it where it is not."""
    if not path.is_file():
        raise StoreError(f"{path} is missing; make it with `make report`")
    return path
