"""Who signed a recording: a detached SSH signature of its manifest, which names all of it by hash.

Made by ``ssh-keygen -Y sign -f KEY -n matmul-study MANIFEST.sha256``. ``data/signers`` says whose
the keys are, in the format of ssh-keygen's ALLOWED SIGNERS: whoever runs the study trusts those.
"""

import shutil
import subprocess
from pathlib import Path

from base.paths import ROOT
from measurement.recording.files import MANIFEST, SIGNATURE, bad, check_file

_NAMESPACE = "matmul-study"
SIGNERS = ROOT / "data" / "signers"


def signed_by(path: Path) -> str | None:
    """Return who signed the recording in a folder, as `SIGNERS` names them; None: it is unsigned.

    Raises RecordingError where the signature is of something else.
    """
    if not (path / SIGNATURE).exists() and not (path / SIGNATURE).is_symlink():
        return None
    check_file(path, SIGNATURE)
    if shutil.which("ssh-keygen") is None:
        return "not checked: there is no ssh-keygen here"
    if _run(path, "check-novalidate").returncode:
        raise bad(path, f"{SIGNATURE} is no signature of its {MANIFEST}")
    found = _run(path, "find-principals", "-f", str(SIGNERS))
    name = found.stdout.splitlines()[0] if found.stdout and not found.returncode else ""
    known = name and not _run(path, "verify", "-f", str(SIGNERS), "-I", name).returncode
    return name if known else "a key that data/signers does not name"


def _run(path: Path, what: str, *options: str) -> "subprocess.CompletedProcess[str]":
    namespace = [] if what == "find-principals" else ["-n", _NAMESPACE]
    command = ["ssh-keygen", "-Y", what, *options, *namespace, "-s", str(path / SIGNATURE)]
    with (path / MANIFEST).open("rb") as manifest:
        return subprocess.run(
            command, stdin=manifest, capture_output=True, text=True, errors="replace", check=False
        )
