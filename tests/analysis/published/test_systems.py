"""The list of systems, and the limits of GPUs."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.kernels.properties import limits_table
from analysis.published.systems import read
from base.errors import StudyError


def test_an_error_names_a_system_whose_variant_is_in_no_catalog(tmp_path):
    for line, words in (
        ("gpu,nave", "gpu 'nave' is not in"),
        ("cpu,block", "cpu 'block' is not in"),
        ("tpu,naive", "tpu 'naive' is not in the catalog"),
        ("gpu,naive,more", "is not in the catalog"),
    ):
        (tmp_path / "systems.csv").write_text(f"source,system,side,variant\nV,naive,{line}\n")
        with pytest.raises(StudyError, match=words):
            read(tmp_path / "systems.csv")
    with pytest.raises(StudyError, match=r"no\.csv: No such file .*; restore it"):
        read(tmp_path / "no.csv")


def test_documented_launch_limits_are_compared_with_the_driver(gpu_recording, cpu_recording):
    found = data.sources({"card": gpu_recording, "host": cpu_recording})
    limits = limits_table(found).set_index("limit")
    assert set(limits["gpu"]) == {"card"}
    threads = limits.loc["threads per multiprocessor"]
    assert (threads["driver_value"], threads["agree"]) == (2048, True)
    registers = limits.loc["registers per thread"]
    assert pd.isna([registers["driver_value"], registers["agree"]]).all(), "no driver says it"
    cache = limits.loc["L2 cache"]
    assert cache["driver_value"] == 52428800
    assert pd.isna(cache["agree"])
    (device,) = gpu_recording.provenance["devices"]
    device = device | {"limits": {"max_threads_per_block": 512, "warp_size": 32}}

    def of_capability(text):
        devices = [device | {"compute_capability": text}]
        made = replace(gpu_recording, provenance=gpu_recording.provenance | {"devices": devices})
        return limits_table(data.sources({"a": made})).set_index("limit")

    assert of_capability("9.9")["agree"].isna().all()
    assert not of_capability("9.0").loc["threads per block", "agree"]
