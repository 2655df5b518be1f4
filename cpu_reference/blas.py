"""numpy's BLAS as a CPU variant: the anchor that the C files are compared with."""

from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from measurement.errors import StudyError

Matrix = npt.NDArray[np.float32]


class Blas:
    """The BLAS that numpy carries, on as many threads as each product asks for."""

    def __init__(self) -> None:
        """Find it; raises StudyError if its threads cannot be set."""
        # scipy carries a copy of its own, which is found only where scipy is loaded.
        self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        if not self._libraries:
            raise StudyError(
                "numpy's BLAS is none of which threadpoolctl can set the threads; install numpy "
                "from PyPI, which carries OpenBLAS"
            )

    def multiply(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> None:
        """Compute ``c = a·b`` on `threads` threads; all are (n, n), C-contiguous float32.

        The number stays set for whatever else of this process uses the BLAS: to set it costs about
        as long as a small product, which is why it is not set back.
        """
        for library in self._libraries:
            if library.num_threads != threads:
                library.set_num_threads(threads)
        np.matmul(a, b, out=c)

    def facts(self) -> dict[str, Any]:
        """Return which BLAS this is: its name, version and the kind of CPU whose code it runs."""
        found = self._libraries[0].info()
        return {
            "blas": found["internal_api"],
            "blas_version": found["version"],
            "blas_architecture": found.get("architecture"),
        }
