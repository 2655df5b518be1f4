"""Launches of a user-supplied product of several steps, with a driver that only remembers them."""

import re
from types import SimpleNamespace

from kernels.catalog.product import with_entry
from kernels.cubins.build import build_for
from kernels.products.shape import Shape
from measurement.devices.launching import Launches
from tests.support import ROOT
from tests.support.supplied import supplied

SPLIT = ROOT / "tests/data/judged_kernels/steps_split-parts-overlap.cu"
A, B, C, WORKSPACE = (number << 30 for number in (1, 2, 3, 4))


class Driver(SimpleNamespace):
    Error = RuntimeError

    def mem_alloc(self, size):
        self.allocated.append(size)
        return WORKSPACE

    def module_from_file(self, path):
        def function(name):
            def call(grid, block, stream, *arguments, shared_size):
                self.calls.append((name, grid, stream, arguments))

            return SimpleNamespace(
                prepare=lambda formats: SimpleNamespace(prepared_async_call=call)
            )

        return SimpleNamespace(get_function=function)


def test_all_steps_of_a_user_kernel_are_launched_with_one_allocated_workspace(tmp_path):
    text = re.sub(r"^.*// twin: ?(.*)$", r"\1", SPLIT.read_text(), flags=re.MULTILINE)
    product = with_entry(supplied(tmp_path / "mine.cu", text), "float32", Shape.square(64))
    driver = Driver(calls=[], allocated=[])
    results = {build_for(product): SimpleNamespace(static_shared_bytes=0)}
    cubins = SimpleNamespace(results=results, file=lambda build: "mine.cubin")
    limits = SimpleNamespace(max_shared_bytes_per_block=48 << 10)
    launch = Launches(driver, cubins, limits, "stream", (A, B, C)).of(product)
    launch()
    launch(256, 512)  # A and B, and C, are later in their buffers
    assert driver.allocated == [4 * 4 * 64 * 64]
    names = [re.match(r"_Z\d+(partial_products|add_parts)", name)[1] for name, *_ in driver.calls]
    assert names == 2 * ["partial_products", "add_parts"]
    assert {stream for _, _, stream, _ in driver.calls} == {"stream"}
    pointers = [arguments[: 3 - (len(arguments) == 4)] for *_, arguments in driver.calls]
    assert pointers == [
        (A, B, WORKSPACE),
        (WORKSPACE, C),
        (A + 256, B + 256, WORKSPACE),
        (WORKSPACE, C + 512),
    ]
