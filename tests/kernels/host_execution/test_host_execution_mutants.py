"""Broken kernels: each is found, and the message names the kernel and the source line."""

import re
from dataclasses import replace

import pytest

from base.paths import shown
from kernels.catalog import entries as catalog
from kernels.catalog.product import with_entry
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.check import check
from kernels.products.shape import Shape
from tests.support import ROOT
from tests.support.cache import made
from tests.support.mutants import MUTANTS

_RUN_FIRST = 5  # without the marker exhaustive


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [
        *(pytest.param(mutant, id=mutant.name) for mutant in MUTANTS[:_RUN_FIRST]),
        *(
            pytest.param(mutant, id=mutant.name, marks=pytest.mark.exhaustive)
            for mutant in MUTANTS[_RUN_FIRST:]
        ),
    ],
)
def test_every_broken_kernel_is_found_at_its_broken_line(mutant, host_builds):
    original = (ROOT / catalog.variant(mutant.kernel).source).read_text()
    assert mutant.old in original
    text = original.replace(mutant.old, mutant.new)
    name = f"{mutant.kernel}.cu"
    # Its place is a part of the build, which is made once.
    source = made("mutant", [text], lambda out: (out / name).write_text(text)) / name
    with pytest.raises(KernelFault) as found:
        check(mutant.product, source, host_builds)
    message = str(found.value)
    assert "\n" not in message
    place = re.match(rf"{re.escape(shown(source))}:([\d,]+): {mutant.kernel}\b", message)
    assert place, message
    lines = [text.splitlines()[int(number) - 1] for number in place[1].split(",")]
    assert any(at in line for at in mutant.at.split("|") for line in lines), message
    assert re.search(mutant.says, message), message


def test_there_are_enough_broken_kernels_and_their_names_are_unique():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
    assert {mutant.kernel for mutant in MUTANTS} == {
        name for name, entry in catalog.VARIANTS.items() if entry.kernel_name == name
    }


def test_a_launch_with_too_little_shared_memory_is_a_fault(host_builds):
    entry = catalog.variant("buffered_row")

    def geometry(shape, block_size):
        whole = entry.geometry(shape, block_size)
        return replace(whole, dynamic_shared_bytes=whole.dynamic_shared_bytes - 4)

    wrong = with_entry(replace(entry, geometry=geometry), "float32", Shape.square(16))
    with pytest.raises(KernelFault) as found:
        check(wrong, folder=host_builds)
    assert str(found.value) == (
        "kernels/buffered_row.cu:12: buffered_row, block (0, 0, 0), thread (15, 0, 0): store of 4 "
        "bytes at byte 60 of shared memory is out of bounds"
    )
