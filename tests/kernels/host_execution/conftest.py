import pytest

from kernels.host_execution.binding import Kernel
from kernels.host_execution.compiler import build_kernel


@pytest.fixture
def compiled(host_builds, tmp_path):
    """Return a function that compiles ``kernel(parameters) { body }``.

    The body begins at line 2 after `before`.
    """

    def kernel(
        body,
        parameters="float *p",
        mode="counted",
        before="",
        folder=host_builds,
        source=tmp_path / "kernel.cu",
        **defines,
    ):
        text = f'{before}extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'
        source.write_text(text)
        library = build_kernel("kernel", source, defines, mode, folder)
        return Kernel(library, source, "kernel", mode == "counted")

    return kernel


@pytest.fixture
def run_case(compiled):
    """Return a function that runs one of several bodies on an array.

    All `bodies` are compiled as one kernel: the first is line 3 after `before`, the next line 4.
    """

    def run(bodies, case, array, threads=64, mode="counted", before="", common=""):
        lines = [common, *(f"if (which == {i}) {{ {b} }}" for i, b in enumerate(bodies.values()))]
        kernel = compiled("\n".join(lines), "float *p, int which", mode, before)
        return kernel.run((1,), (threads,), [array, [*bodies].index(case)], 256)

    return run
