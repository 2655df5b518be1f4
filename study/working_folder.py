"""Working folders of Snakemake outside the checkout."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from base.files import write_atomic
from base.paths import FOLDERS, ROOT
from study.config_file import dump

# Paths in the rules are relative to the folder in which Snakemake runs.
PARTS = (*FOLDERS, "data", "CITATION.cff", "Snakefile")


def fill(folder: Path, content: Any, root: Path) -> None:
    """Create links to the study in `folder`, and config.yaml with this `content`.

    Relative paths of recordings are those in `root` or, if they are missing there, in the study.
    """

    def placed(recording: Any) -> Any:
        if isinstance(recording, list):
            return [placed(path) for path in recording]
        in_root, linked = root / recording, folder / recording
        is_linked = linked.exists() and not (in_root.exists() and not in_root.samefile(linked))
        return recording if is_linked else str(in_root)

    folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        (folder / name).unlink(missing_ok=True)
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    with suppress(AttributeError, KeyError, TypeError):  # the Snakefile reports errors
        for gpu in content["gpus"]:
            gpu |= {key: placed(gpu[key]) for key in ("recording", "recordings") if key in gpu}
    write_atomic(folder / "config.yaml", dump(content))
