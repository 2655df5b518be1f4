"""Recordings in tests: a cache, a CPU library, worker processes and pauses that take no time."""

import pytest

from measurement.recorder import record as recorder
from measurement.sampling import interference, supervisor
from tests.support import warm
from tests.support.builds import cpu_library
from tests.support.fakes import SETTLE_S


@pytest.fixture
def stand_ins(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(recorder, "CACHE", tmp_path_factory.mktemp("references"))
    monkeypatch.setattr(recorder, "build_library", cpu_library)
    monkeypatch.setattr(supervisor, "_SPAWN", warm.CONTEXT)
    monkeypatch.setattr(interference, "_SETTLE_S", SETTLE_S)
