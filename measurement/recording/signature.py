"""Signatures of recordings: a detached SSH signature of the manifest, which hashes all files.

Create one by ``ssh-keygen -Y sign -f KEY -n matmul-study MANIFEST.sha256``. ``data/signers`` lists
the trusted keys and their owners in ssh-keygen's format ALLOWED SIGNERS.
"""

import shutil
import subprocess
from pathlib import Path

from base.files import MANIFEST
from base.paths import ROOT
from measurement.recording.files import SIGNATURE, bad, check_file

_NAMESPACE = "matmul-study"
SIGNERS = ROOT / "data" / "signers"


def signed_by(path: Path) -> str | None:
    """Return the signer of a recording, as named in `SIGNERS`; None if it is unsigned.

    Raise RecordingError if the signature does not match the manifest.
    """
    if not (path / SIGNATURE).exists() and not (path / SIGNATURE).is_symlink():
        return None
    check_file(path, SIGNATURE)
    if shutil.which("ssh-keygen") is None:
        return "not checked: ssh-keygen is not installed"
    if _run(path, "check-novalidate").returncode:
        raise bad(path, f"{SIGNATURE} does not match {MANIFEST}")
    found = _run(path, "find-principals", "-f", str(SIGNERS))
    name = found.stdout.splitlines()[0] if found.stdout and not found.returncode else ""
    known = name and not _run(path, "verify", "-f", str(SIGNERS), "-I", name).returncode
    return name if known else "a key that is not in data/signers"


def _run(path: Path, what: str, *options: str) -> "subprocess.CompletedProcess[str]":
    namespace = [] if what == "find-principals" else ["-n", _NAMESPACE]
    command = ["ssh-keygen", "-Y", what, *options, *namespace, "-s", str(path / SIGNATURE)]
    with (path / MANIFEST).open("rb") as manifest:
        return subprocess.run(
            command, stdin=manifest, capture_output=True, text=True, errors="replace", check=False
        )
