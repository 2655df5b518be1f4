"""Parsed headers: the same libraries in less time, also where g++ cannot use them."""

import pytest

from base.paths import ROOT
from kernels.host_execution import compiler
from kernels.host_execution.compiler import build_kernel

pytestmark = pytest.mark.exhaustive


def built(folder, block):
    defines = {"BLOCK": block, "ELEMENT": "float", "GUARDED": 0}
    source = ROOT / "kernels" / "block.cu"
    return build_kernel("block", source, defines, "separate", folder).read_bytes()


def test_precompiled_headers_are_used_for_several_kernels_and_change_no_result(tmp_path, patch):
    few, several = tmp_path / "few", tmp_path / "several"
    expected = [built(few, block) for block in (2, 4)]
    assert not [*few.glob("headers-*")]
    patch(compiler, _SEVERAL=0)
    assert built(several, 2) == expected[0]
    ((header, parsed),) = (sorted(path.iterdir()) for path in several.glob("headers-*"))
    assert parsed.name == "headers.h.gch"
    parsed.unlink()
    header.write_text("#error never")
    assert built(several, 4) == expected[1], "built without them"
