"""Every table of the study: its columns, their types, units and headings, said once.

What is written (`analysis.data.store.write`), read (`analysis.data.store.Store`), shown in the page
(`analysis.render`) and documented (docs/reference/tables.md, by ``python -m analysis schema``)
follows from here. A column has one meaning wherever it stands. ``total_s±`` stands for three columns: a median
and the bounds of its 95 % interval, total_low_s and total_high_s.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

Value = TypeVar("Value")
Kind = Literal["text", "flag", "count", "number"]


@dataclass(frozen=True)
class Unit:
    """How a quantity is shown: factor from SI, name, significant digits.

    No digits (None): as short as it can be, for values that were published rounded; 0: a count.
    """

    factor: float
    name: str
    digits: int | None


S = Unit(1.0, "s", 4)
MS = Unit(1e3, "ms", 4)
US = Unit(1e6, "µs", 3)
NS = Unit(1e9, "ns", 3)
PS = Unit(1e12, "ps", 3)
GFLOPS = Unit(1e-9, "GFLOP/s", 4)
TFLOPS = Unit(1e-12, "TFLOP/s", 3)
GB_PER_S = Unit(1e-9, "GB/s", 3)
MHZ = Unit(1e-6, "MHz", 4)
GHZ = Unit(1e-9, "GHz", 3)
BYTES = Unit(1.0, "B", 0)
KIB = Unit(1 / 1024, "KiB", None)
MIB = Unit(1 / 1024**2, "MiB", None)
GIB = Unit(1 / 1024**3, "GiB", 3)
CELSIUS = Unit(1.0, "°C", 0)
JOULE = Unit(1.0, "J", 3)
GFLOP_PER_J = Unit(1e-9, "GFLOP/J", 3)
WATT = Unit(1.0, "W", 3)
TIMES = Unit(1.0, "×", 3)
FOLD = Unit(1.0, "times", 3)  # the same in a sentence
PERCENT = Unit(100.0, "%", 2)
COUNT = Unit(1.0, "", 0)
BLOCK = Unit(1.0, "", 1)  # a block size, or rows and columns of a tile in one number
PLAIN = Unit(1.0, "", 3)
FACTOR = Unit(1.0, "", 4)  # where a difference of a thousandth is of interest
# Published values, to which no digit is added.
PRINTED_S = Unit(1.0, "s", None)
PRINTED_GFLOPS = Unit(1e-9, "GFLOP/s", None)


@dataclass(frozen=True)
class Column:
    """A column: its name, what a cell holds, its heading in the page, the unit it is shown in."""

    name: str
    kind: Kind
    heading: str
    unit: Unit


@dataclass(frozen=True)
class Table:
    """A table: what it holds, and its columns in their order."""

    name: str
    description: str
    columns: tuple[str, ...]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TEXT = _names(
    """
    recording gpu device gpu_name cpu_model source machine variant dtype host_memory build
    quantity cpu_own_variant cpu_best_variant status reason blas blas_version blas_architecture
    intensity part start after_variant architecture nvcc cubin_sha256 item commit stale_sources
    phase verdict throttle_reasons kind recording_a recording_b gpu_a gpu_b ncu_metric explanation
    series limiter after changed bound claim measured above below rule compute_capability limit
    unit system side listed_in implementation first direction data model cpu_baseline location kernels
    parameter matrices units method adds role worst_variant basis of started_utc finished_utc
    environment.value next_variant own_variant speedup_variant speedup_host_memory speedup_verdict
    kernel_timing implementation_verdict other_host_memory break_even_location break_even_host_memory break_even_verdict idea
    test length property kernel_variant pinned_variant pageable_variant
    """
)
# What is text everywhere else, but a count here.
_NOT_TEXT = {"audit_constants.kernels"}
_FLAG = _names(
    """
    live simulated at_once dirty stale agree agrees differs is_empty rate_agrees holdout used inside
    in_interval selected_on_this_gpu host_work
    is_library is_fastest is_predicted_fastest
    """
)
_COUNT = _names(
    """
    batch m n k block_size threads session sessions samples kernel_samples samples_a samples_b
    launches rounds cells cells_agreeing cells_inside medians_evaluated medians_inside first_sessions
    naive_samples cpu_naive_samples cpu_own_samples cpu_blas_samples cpu_blas_all_samples
    cpu_best_samples
    cells_passed cells_failed cells_not_launchable cells_without_interval cases draws seed table
    other_table first_table last_table other_block_size least_n largest_n before_n copies
    after_block_size after_threads cpu_own_block_size cpu_best_block_size cpu_best_threads
    cpu_blas_all_threads registers_per_thread static_shared_bytes dynamic_shared_bytes
    spill_store_bytes spill_load_bytes stack_bytes threads_per_block blocks_per_multiprocessor
    warps_per_multiprocessor instructions fmas loop_instructions loop_fmas
    loop_barriers logical_cpus usable_cpus usable_threads documented_value driver_value multiprocessors
    worst_row worst_column parameters evaluated evaluated_within evaluated_from_n worst_block_size
    kinds kernel_block_size pinned_block_size pageable_block_size
    worst_n pairs processes line samples_clock_changed samples_throttled end_to_end_cells end_to_end_cells_without_interval
    end_to_end_cells_wide medians_compared medians_reproduced sizes holdout_sizes neighbours
    least_n_kernels least_n_near
    next_block_size own_block_size speedup_n speedup_block_size break_even_least_n break_even_largest_n
    audit_constants.kernels
    samples_throttled_a samples_throttled_b slower_at faster_at least_n_kernels least_n_near
    loop_global_loads_32 loop_global_loads_64 loop_global_loads_128 loop_shared_loads_32
    loop_shared_loads_64 loop_shared_loads_128 loop_shared_stores_32 loop_shared_stores_64
    loop_shared_stores_128 widest_global_loads_bits widest_shared_loads_bits
    widest_shared_stores_bits l1_shared_by l2_shared_by l3_shared_by
    """
)
# What is a count everywhere else, but a fitted number here.
_NUMBER = {"break_even.n"}

# Name: what it holds, and its columns.
_DECLARED = {
    "summary": (
        "every measured cell: medians, intervals, rates",
        "recording gpu device variant dtype batch m n k block_size host_memory threads build "
        "series samples sessions total_s± host_s± h2d_s± in_run_kernel_s± d2h_s± overhead_s "
        "kernel_s± kernel_timing kernel_samples flop_per_s kernel_flop_per_s",
    ),
    "speedups": (
        "speedups over the naive kernel and over five baselines on the CPU, with intervals",
        "source machine n variant block_size host_memory total_speedup± kernel_speedup± "
        "cpu_naive_speedup± cpu_own_speedup± cpu_blas_speedup± cpu_blas_all_speedup± cpu_best_speedup± "
        "sessions samples naive_samples cpu_naive_samples cpu_own_samples cpu_blas_samples "
        "cpu_blas_all_samples cpu_best_samples cpu_own_variant cpu_own_block_size "
        "cpu_blas_all_threads cpu_best_variant cpu_best_block_size cpu_best_threads",
    ),
    "answers": (
        "the three answers on each GPU: fastest way, speedup over its CPU, break-even",
        "recording gpu sessions n variant block_size host_memory threads total_s± is_library "
        "implementation_verdict next_variant next_block_size next_total_s± own_variant own_block_size "
        "own_total_s± other_host_memory other_total_s± speedup_n speedup_variant speedup_block_size "
        "speedup_host_memory cpu_best_variant cpu_best_threads speedup± speedup_verdict break_even_location "
        "break_even_n± break_even_least_n break_even_largest_n break_even_host_memory break_even_verdict",
    ),
    "ladder_summary": (
        "the ladder at a glance: each kernel at the largest matrix size, beside the ceilings",
        "recording gpu variant idea is_library after n block_size samples kernel_s± "
        "kernel_flop_per_s share_of_library units share_of_units traffic_bytes bound "
        "share_of_bound speedup± verdict",
    ),
    "table1": (
        "published and measured Table 1",
        "source machine n cpu_time_s± cpu_flop_per_s gpu_time_s± gpu_flop_per_s speedup±",
    ),
    "table2": (
        "published and measured Table 2",
        "source machine n cpu_time_s± cpu_flop_per_s gpu_time_s± gpu_flop_per_s speedup±",
    ),
    "table3": (
        "published and measured Table 3",
        "source machine n naive_time_s± buffered_column_time_s± buffered_column_speedup±",
    ),
    "table4": (
        "published and measured Table 4",
        "source machine n naive_time_s± naive_flop_per_s buffered_column_time_s± "
        "buffered_column_flop_per_s buffered_column_speedup± buffered_row_time_s± "
        "buffered_row_flop_per_s buffered_row_speedup±",
    ),
    "table5": (
        "published and measured Table 5",
        "source machine n naive_time_s± block_1_time_s± block_1_speedup± block_2_time_s± "
        "block_2_speedup± block_4_time_s± block_4_speedup± block_8_time_s± block_8_speedup± "
        "block_16_time_s± block_16_speedup± block_32_time_s± block_32_speedup±",
    ),
    "table6": (
        "published and measured Table 6",
        "source machine n naive_time_s± block_unroll4_4_time_s± block_unroll4_4_speedup± "
        "block_unroll4_8_time_s± block_unroll4_8_speedup± block_unroll4_16_time_s± "
        "block_unroll4_16_speedup± block_unroll4_32_time_s± block_unroll4_32_speedup±",
    ),
    "gpu_comparison": (
        "the fastest way on each GPU, over that on the first GPU",
        "gpu gpu_name sessions n quantity host_memory variant block_size time_s± first "
        "first_sessions ratio± basis verdict",
    ),
    "figure2": (
        "source V's Figure 2: its fastest kernel on each GPU, and what the GPU is",
        "recording gpu gpu_name simulated n kernel_variant kernel_block_size kernel_flop_per_s± "
        "pinned_variant pinned_block_size pinned_flop_per_s± pageable_variant "
        "pageable_block_size pageable_flop_per_s± multiprocessors fma_flop_per_s "
        "memory_bytes_per_s link_bytes_per_s roofline_flop_per_s",
    ),
    "systems": (
        "the sources' systems: where they stand and how they fare",
        "source system side variant listed_in recording gpu cells_passed cells_failed "
        "cells_not_launchable best_flop_per_s dtype batch m n k block_size host_memory "
        "threads",
    ),
    "recordings": (
        "the recordings and whether they are stale",
        "recording gpu device gpu_name cpu_model live simulated at_once started_utc finished_utc "
        "commit dirty sessions samples cells_passed cells_failed cells_not_launchable stale "
        "stale_sources",
    ),
    "missing": ("GPUs that were to be measured and were not, and why", "recording reason"),
    "checks": (
        "the correctness gate, cell by cell",
        "recording session device variant dtype batch m n k block_size host_memory threads build "
        "status reason worst_row worst_column worst_error worst_bound",
    ),
    "builds": (
        "registers, shared memory and spills of every build",
        "recording architecture variant dtype block_size build registers_per_thread "
        "static_shared_bytes spill_store_bytes spill_load_bytes stack_bytes nvcc cubin_sha256",
    ),
    "environment": (
        "hosts, GPUs and software",
        "recording item value",
    ),
    "ladder": (
        "what each step speedups over the step before, and what it changed",
        "recording gpu variant block_size after after_block_size dtype batch m n k "
        "host_memory quantity time_s after_time_s speedup± verdict energy_j flop_per_j changed",
    ),
    "accuracy": (
        "errors of products of several kinds of matrices, in units of 2⁻²⁴·|A|·|B|",
        "recording gpu variant dtype batch m n k block_size matrices worst_units rms_units "
        "over_library",
    ),
    "end_to_end_modes": (
        "passes in pieces and as graphs, beside the plain run of the same kernel",
        "recording gpu variant block_size after after_block_size dtype batch m n k host_memory "
        "total_s after_total_s speedup± verdict parts_s limit limit_s share_of_limit",
    ),
    "energy": (
        "what a product takes of energy, by the GPU's own counter",
        "recording gpu variant dtype batch m n k block_size launches duration_s launch_s power_w "
        "idle_power_w energy_j flop_per_j",
    ),
    "machine_code": (
        "every build: resources, occupancy, instructions, flop a byte",
        "recording architecture variant dtype block_size build registers_per_thread "
        "static_shared_bytes dynamic_shared_bytes spill_store_bytes spill_load_bytes "
        "threads_per_block blocks_per_multiprocessor warps_per_multiprocessor occupancy "
        "limiter instructions fmas loop_instructions loop_fmas "
        "loop_barriers loop_global_loads_32 loop_global_loads_64 loop_global_loads_128 "
        "loop_shared_loads_32 loop_shared_loads_64 loop_shared_loads_128 "
        "loop_shared_stores_32 loop_shared_stores_64 loop_shared_stores_128 "
        "widest_global_loads_bits widest_shared_loads_bits widest_shared_stores_bits "
        "fma_share loop_fma_share unrolling batch m n k "
        "shared_load_conflicts_per_request shared_store_conflicts_per_request "
        "flop_per_byte_accessed flop_per_byte_of_sectors",
    ),
    "roofline": (
        "each variant beside the ceilings of its card",
        "recording gpu variant dtype batch m n k block_size host_memory kernel_s± "
        "kernel_flop_per_s flop_per_byte_of_sectors balance_flop_per_byte traffic_bytes "
        "compute_bound_s l1_bound_s shared_bound_s dram_bound_s bound bound_s share_of_bound "
        "units share_of_units",
    ),
    "counts": (
        "memory accesses: theory, host's count, hardware counter",
        "recording gpu variant dtype batch m n k block_size build quantity ncu_metric theory "
        "merged host counter counter_over_theory theory_per_request merged_per_request "
        "host_per_request counter_per_request agrees explanation",
    ),
    "counts_by_line": (
        "memory accesses by source line, counted on the host",
        "variant dtype batch m n k block_size build line quantity host per_thread per_request",
    ),
    "claims": (
        "the sources' claims, and whether they hold",
        "recording gpu claim source measured above below block_size quantity host_memory "
        "batch m n k cases value± expected verdict rule",
    ),
    "limits": (
        "what a GPU allows a launch, by table and by driver",
        "recording gpu compute_capability limit unit documented_value driver_value agree",
    ),
    "models": (
        "the parameters of every fitted model",
        "source machine quantity kernels model parameter value± status method unit cycles "
        "share cells samples draws seed",
    ),
    "model_comparison": (
        "how well each model predicts the sizes that it was not fitted to",
        "source machine quantity kernels model adds after parameters cells sizes log_rms "
        "left_out_log_rms± left_out_factor± over_best± verdict speedup± aicc aicc_above_least "
        "evaluated_from_n evaluated_factor evaluated evaluated_within worst_variant worst_block_size worst_n "
        "worst_factor",
    ),
    "model_tests": (
        "how models and empirical baselines predict what they did not see",
        "source machine quantity kernels test model adds parameters selected_on_this_gpu cells log_rms± "
        "error_factor over_best± verdict cells_inside inside_share interval_factor",
    ),
    "model_steps": (
        "what each step from model to model explains",
        "source machine quantity kernels model after adds share variant block_size "
        "error_before error_after",
    ),
    "model_predictions": (
        "times by the plainest and by the best model, cell by cell",
        "source machine quantity kernels model role variant block_size n samples time_s± "
        "predicted_s± in_interval log_residual left_out_log_residual",
    ),
    "model_ratios": (
        "the fitted ρ beside ratios of latencies and of bandwidths",
        "source machine basis of value± status",
    ),
    "predictors": (
        "what predictions know of each card beside its fits",
        "recording gpu gpu_name multiprocessors memory_bytes launch_s least_n largest_n "
        "error_bound",
    ),
    "transfers": (
        "the transfer model: latency, bandwidth, and how well they predict",
        "recording gpu host_memory direction data model used sizes least_bytes most_bytes "
        "latency_s± bytes_per_s± knee_bytes beyond_bytes_per_s log_rms left_out_log_rms "
        "cells_log_sd half_width holdout_sizes holdout_log_rms",
    ),
    "transfer_points": (
        "copies as measured, and by the transfer model",
        "recording gpu host_memory direction data n holdout copies size_bytes cells samples "
        "copy_s± cells_log_sd line_s knee_s log_residual",
    ),
    "curves": (
        "times of kernels and of the CPU between the measured sizes",
        "recording gpu cpu_baseline variant block_size threads n samples time_s± filled_s slope "
        "outer_slope half_width_between half_width_beyond half_width left_out_between "
        "left_out_beyond",
    ),
    "break_even": (
        "from which matrix size on a GPU is faster than its CPU",
        "recording gpu host_memory kernels cpu_baseline sessions least_n largest_n location n± "
        "slower_at faster_at cells_without_interval draws seed",
    ),
    "predictions": (
        "passes at held-out sizes, measured and predicted",
        "recording gpu host_memory variant block_size n time_s± predicted_s± error_share "
        "inside is_library is_fastest is_predicted_fastest",
    ),
    "cpu_hosts": (
        "hosts: CPU, threads, caches, BLAS",
        "recording session cpu_model logical_cpus usable_cpus usable_threads memory_bytes l1_bytes "
        "l1_shared_by l2_bytes l2_shared_by l3_bytes l3_shared_by blas blas_version "
        "blas_architecture",
    ),
    "cpu_clock": (
        "the clock of the CPU before and after its runs",
        "recording threads samples clock_before_hz clock_before_min_hz clock_before_max_hz "
        "clock_after_hz clock_after_min_hz clock_after_max_hz tolerance samples_clock_changed "
        "busy_other_threads busy_other_threads_max",
    ),
    "cpu_ladder": (
        "what each step of the CPU's ladder gains, on one thread and on all",
        "recording variant block_size threads time_s after_variant after_block_size "
        "after_threads after_time_s n speedup± verdict efficiency±",
    ),
    "cpu_roofline": (
        "each CPU variant beside the ceilings of its host",
        "recording variant block_size threads n total_s± flop_per_s intensity "
        "flop_per_byte_requested flop_per_byte_beyond_l1 flop_per_byte_beyond_l2 "
        "flop_per_byte_beyond_l3 compute_bound_s l1_bound_s l2_bound_s l3_bound_s "
        "memory_bound_s bound bound_s share_of_bound",
    ),
    "cpu_split": (
        "speedups over the naive CPU loop, split into their parts",
        "recording gpu machine host_memory n start part variant block_size threads time_s "
        "after_variant after_block_size after_threads after_time_s factor± share±",
    ),
    "telemetry": (
        "clocks, temperature, power and throttling, cell by cell",
        "recording gpu device variant dtype batch m n k block_size host_memory threads "
        "samples samples_throttled throttle_reasons sm_clock_hz sm_clock_min_hz "
        "memory_clock_hz temperature_max_celsius power_w total_s± in_run_kernel_s± "
        "unthrottled_total_s± unthrottled_in_run_kernel_s±",
    ),
    "back_to_back": (
        "short kernels launched back to back, and one at a time",
        "recording gpu device variant dtype batch m n k block_size launches rounds "
        "kernel_batch_s± host_memory kernel_s± ratio±",
    ),
    "cold_starts": (
        "what a fresh process pays until its first product",
        "recording gpu device variant dtype batch m n k block_size host_memory threads "
        "processes init_s± context_s± module_s± allocation_s± h2d_s± in_run_kernel_s± d2h_s± "
        "total_s± warm_total_s± ratio±",
    ),
    "ceilings": (
        "the most that GPU, link, CPU and clock do",
        "recording gpu device quantity host_memory size_bytes threads rounds value±",
    ),
    "phases": (
        "how long each part of a measurement took",
        "recording gpu session device phase wall_s busy_s share_not_busy",
    ),
    "interference": (
        "passes beside the traffic of a host's other GPUs",
        "recording gpu device variant dtype batch m n k block_size host_memory threads "
        "neighbours quantity pairs isolated_s± with_traffic_s± ratio± p_differs p_same q_differs "
        "q_same verdict",
    ),
    "agreement": (
        "how many medians of recordings of the same kind of card agree",
        "recording_a gpu_a recording_b gpu_b kind quantity tolerance cells cells_agreeing share",
    ),
    "agreement_cells": (
        "cells whose medians do not, with the state of both GPUs",
        "recording_a gpu_a recording_b gpu_b kind quantity variant dtype batch m n k "
        "block_size host_memory threads samples_a samples_b median_a_s± median_b_s± ratio± "
        "sm_clock_a_hz sm_clock_b_hz temperature_max_a_celsius temperature_max_b_celsius "
        "power_a_w power_b_w samples_throttled_a samples_throttled_b",
    ),
    "sessions": (
        "how far sessions lie from each other, and whether intervals hold one that was left out",
        "recording gpu quantity host_memory host_work threads length sessions cells between_log_sd "
        "common_log_sd noise_log_sd degrees_of_freedom mean_interval_factor new_session_interval_factor medians_evaluated "
        "medians_inside inside_share",
    ),
    "threats": (
        "what speaks against the numbers, GPU by GPU",
        "recording gpu samples samples_throttled share_throttled share_clock_changed sm_clock_low_hz "
        "sm_clock_high_hz end_to_end_cells end_to_end_cells_without_interval end_to_end_cells_wide medians_compared "
        "medians_reproduced cells_failed stale dirty simulated",
    ),
    "audit_cells": (
        "every published cell: rate by its time, gain without the start-up constant",
        "table machine implementation n block_size time_s rounding_s printed_flop_per_s "
        "flop_per_s± rate_agrees constant_s± above_constant_s naive_time_s naive_constant_s "
        "speedup speedup_without_constant± m0_limit",
    ),
    "audit_constants": (
        "start-up constants of the published tables",
        "machine first_table last_table constant_s± kernels cells shortest_s least_n "
        "least_n_kernels least_n_near log_rms",
    ),
    "audit_pairs": (
        "published block sizes in pairs, and cells that are printed twice",
        "kind table other_table machine implementation n block_size other_block_size time_s "
        "other_time_s above_constant_s rounding_s differs is_empty",
    ),
    "audit_headline": (
        "the text's best rate beside Table 6",
        "machine n headline_flop_per_s headline_s± table implementation block_size time_s± "
        "flop_per_s difference_s± copies copy_bytes copies_bytes_per_s± link_bytes_per_s",
    ),
    "audit_cpu": (
        "what the published CPU columns are",
        "table machine n before_n cpu_time_s cpu_flop_per_s growth n3_growth tuned_speedup "
        "tuned_flop_per_s tuned_least_flop_per_s tuned_most_flop_per_s headline_s "
        "over_headline stated_speedup verdict",
    ),
}

# The unit of a quantity, by how its name ends; the first that fits.
_UNIT_OF_ENDING = (
    ("bytes_per_s", GB_PER_S),
    ("flop_per_s", GFLOPS),
    ("_hz", MHZ),
    ("_celsius", CELSIUS),
    ("_w", WATT),
    ("flop_per_j", GFLOP_PER_J),
    ("_j", JOULE),
    ("latency_s", US),
    ("_s", MS),
    ("speedup", TIMES),
    ("ratio", TIMES),
    ("factor", TIMES),
    ("share", PERCENT),
    ("efficiency", PERCENT),
    ("occupancy", PERCENT),
    ("_bytes", KIB),
)
_UNITS = {
    "error_share": PERCENT,
    "growth": TIMES,
    "n3_growth": Unit(1.0, "times", None),
    "tuned_speedup": Unit(1.0, "times", None),
    "over_headline": TIMES,
    "static_shared_bytes": BYTES,
    "dynamic_shared_bytes": BYTES,
    "spill_store_bytes": BYTES,
    "spill_load_bytes": BYTES,
    "stack_bytes": BYTES,
    "tolerance": PERCENT,
    "share_of_bound": PERCENT,
    "share_of_library": PERCENT,
    "share_of_limit": PERCENT,
    "share_of_units": PERCENT,
    "share_throttled": PERCENT,
    "share_clock_changed": PERCENT,
    "share_not_busy": PERCENT,
    "left_out_factor": PLAIN,
    "error_factor": PLAIN,
    "interval_factor": PLAIN,
    "mean_interval_factor": FACTOR,
    "new_session_interval_factor": FACTOR,
    "over_best": TIMES,
    "over_library": TIMES,
    "traffic_bytes": Unit(1e-9, "GB", 3),
    "worst_factor": PLAIN,
    "expected": PLAIN,
    "audit_cells.time_s": PRINTED_S,
    "audit_cells.naive_time_s": PRINTED_S,
    "audit_cells.speedup": TIMES,
    "audit_cells.printed_flop_per_s": PRINTED_GFLOPS,
    "audit_pairs.time_s": PRINTED_S,
    "audit_pairs.other_time_s": PRINTED_S,
    "audit_pairs.above_constant_s": Unit(1.0, "s", 2),
    "audit_constants.constant_s": Unit(1.0, "s", 3),
    "audit_constants.shortest_s": PRINTED_S,
    "audit_headline.headline_flop_per_s": PRINTED_GFLOPS,
    "audit_headline.headline_s": Unit(1.0, "s", 3),
    "audit_headline.time_s": PRINTED_S,
    "audit_headline.difference_s": Unit(1.0, "s", 3),
    "audit_cpu.cpu_time_s": PRINTED_S,
    "audit_cpu.headline_s": Unit(1.0, "s", 3),
    "audit_cpu.tuned_least_flop_per_s": PRINTED_GFLOPS,
    "audit_cpu.tuned_most_flop_per_s": PRINTED_GFLOPS,
    "energy.duration_s": S,
    "phases.wall_s": S,
    "phases.busy_s": S,
}

# What the page calls a column where its name, without the unit, does not serve.
_HEADINGS = {
    "n": "N",
    "m": "M",
    "k": "K",
    "block_size": "B",
    "dtype": "elements",
    "gpu": "card",
    "gpu_name": "GPU's name",
    "cpu_time_s": "CPU time",
    "gpu_time_s": "GPU time",
    "cpu_flop_per_s": "CPU rate",
    "gpu_flop_per_s": "GPU rate",
    "host_memory": "memory",
    "total_s": "total",
    "host_s": "host work",
    "h2d_s": "copy in",
    "kernel_s": "kernel",
    "in_run_kernel_s": "kernel, in the run",
    "kernel_timing": "kernel timed",
    "d2h_s": "copy out",
    "bytes_per_s": "bandwidth",
    "flop_per_s": "rate, total",
    "kernel_flop_per_s": "rate, kernel",
    "pinned_flop_per_s": "rate, pinned memory",
    "pageable_flop_per_s": "rate, pageable memory",
    "fma_flop_per_s": "FMA rate",
    "memory_bytes_per_s": "memory",
    "link_bytes_per_s": "link",
    "roofline_flop_per_s": "both allow",
    "total_speedup": "speedup over naive, total",
    "kernel_speedup": "speedup over naive, kernel",
    "cpu_naive_speedup": "speedup over the naive loop",
    "cpu_own_speedup": "speedup over own C code",
    "cpu_blas_speedup": "speedup over BLAS, one thread",
    "cpu_blas_all_speedup": "speedup over BLAS, all threads",
    "cpu_best_speedup": "speedup over the best CPU version",
    "energy_j": "energy a product",
    "flop_per_j": "rate a watt",
    "energy.duration_s": "read over",
    "share_of_library": "of cuBLAS",
    "share_of_units": "of its units' rate",
    "traffic_bytes": "moved",
    "ladder_summary.bound": "limit",
    "idea": "what changes",
    "after": "step after",
    "model_comparison.after": "after",
    "left_out_log_rms": "left-out error (log RMS)",
    "left_out_factor": "left-out error as a factor",
    "evaluated": "cells evaluated",
    "evaluated_within": "within 1.5 ×",
    "log_rms": "fit error (log RMS)",
    "model_tests.log_rms": "error (log RMS)",
    "error_factor": "error as a factor",
    "cells_inside": "in their 95 % interval",
    "inside_share": "share in it",
    "interval_factor": "interval as a factor",
    "between_log_sd": "between sessions (log SD)",
    "common_log_sd": "common to all cells (log SD)",
    "noise_log_sd": "noise of a median (log SD)",
    "degrees_of_freedom": "degrees of degrees_of_freedom",
    "mean_interval_factor": "interval of a mean, as a factor",
    "new_session_interval_factor": "interval of one more session, as a factor",
    "medians_evaluated": "medians left out",
    "medians_inside": "of these in their interval",
    "aicc": "AICc",
    "aicc_above_least": "AICc above the least",
    "above_constant_s": "time above the constant",
    "printed_flop_per_s": "rate as printed",
    "audit_cells.flop_per_s": "rate from the time",
    "rate_agrees": "agree",
    "speedup_without_constant": "speedup without the constant",
    "is_empty": "no longer than the constant",
    "documented_value": "by the guide",
    "driver_value": "by the driver",
    "fma_share": "FMA share",
    "loop_fma_share": "FMA share of the loop",
    "registers_per_thread": "registers a thread",
    "static_shared_bytes": "shared memory",
    "spill_store_bytes": "spilled",
    "share_of_bound": "of its bound",
    "flop_per_byte_of_sectors": "flop a byte",
}
_HEADINGS |= {
    f"{variant}_{b}_{what}": f"{heading}, B = {b}"
    for variant, blocks in (("block", (1, 2, 4, 8, 16, 32)), ("block_unroll4", (4, 8, 16, 32)))
    for b in blocks
    for what, heading in (("time_s", "time"), ("speedup", "speedup"))
}


def _tables() -> dict[str, Table]:
    return {
        name: Table(name, description, tuple(_expanded(columns)))
        for name, (description, columns) in _DECLARED.items()
    }


def _expanded(columns: str) -> Iterator[str]:
    for name in columns.split():
        yield name.removesuffix("±")
        if name.endswith("±"):
            yield from interval_columns(name.removesuffix("±"))


def interval_columns(column: str) -> tuple[str, str]:
    """Return the columns with the bounds of `column`: its name, _low or _high, then its unit."""
    stem, unit = (column[:-2], "_s") if column.endswith("_s") else (column, "")
    return f"{stem}_low{unit}", f"{stem}_high{unit}"


def with_bounds(column: str) -> list[str]:
    """Return a column and those with its bounds, in the order of the tables."""
    return [column, *interval_columns(column)]


def bounded(column: str, value: Value, low: Value, high: Value) -> dict[str, Value]:
    """Return a value and its bounds by the columns that hold them."""
    return dict(zip(with_bounds(column), (value, low, high), strict=True))


def renaming(column: str, to: str) -> dict[str, str]:
    """Return new names of a column and of those with its bounds."""
    return dict(zip(with_bounds(column), with_bounds(to), strict=True))


@cache
def column(table: str, name: str) -> Column:
    """Return a column of a table; bounds of an interval are shown as their value is."""
    base, end = name, ""
    for bound, said in (("_low", ", at least"), ("_high", ", at most")):
        if bound in name and name.replace(bound, "", 1) in TABLES[table].columns:
            base, end = name.replace(bound, "", 1), said
    own = f"{table}.{base}"
    kind: Kind = "number"
    if own in _TEXT or (base in _TEXT and own not in _NOT_TEXT):
        kind = "text"
    elif base in _FLAG:
        kind = "flag"
    elif own in _COUNT or (base in _COUNT and own not in _NUMBER):
        kind = "count"
    unit = COUNT if kind == "count" and not base.endswith("_bytes") else _unit(own, base)
    unit = BLOCK if base.endswith("block_size") else unit
    heading = _HEADINGS.get(own) or _HEADINGS.get(base) or _heading(base, unit)
    return Column(name, kind, heading + end, unit)


def _unit(own: str, base: str) -> Unit:
    found = _UNITS.get(own) or _UNITS.get(base)
    endings = (unit for ending, unit in _UNIT_OF_ENDING if base.endswith(ending))
    return found or next(endings, PLAIN)


def _heading(base: str, unit: Unit) -> str:
    """Return a column's name as words, without the unit that stands beside it."""
    if unit is not PLAIN:
        for ending in ("_bytes_per_s", "_flop_per_s", "_celsius", "_bytes", "_hz", "_w", "_s"):
            base = base.removesuffix(ending)
    return base.replace("_", " ")


TABLES = _tables()


def documentation() -> str:
    """Return every table with its columns, types and units, in Markdown."""
    lines = [
        "# Tables of the study",
        "",
        "Written by `python -m analysis schema` from `analysis/schema.py`. ± marks a value with",
        "the bounds of its 95 % interval in the two columns that follow it. Units are SI. What has",
        "no kind in parentheses is a number.",
    ]
    for table in TABLES.values():
        described = [
            column(table.name, name) for name in table.columns if not _is_bound(table, name)
        ]
        texts = [
            f"`{each.name}`{_mark(table, each)} ({each.kind})"
            if each.kind != "number"
            else f"`{each.name}`{_mark(table, each)}"
            for each in described
        ]
        said = f"{table.description[0].upper()}{table.description[1:]}."
        lines += ["", f"## {table.name}.csv", "", said, "", ", ".join(texts) + "."]
    return "\n".join(lines) + "\n"


def _mark(table: Table, described: Column) -> str:
    """Return ± for a column whose bounds follow it."""
    return "±" if interval_columns(described.name)[0] in table.columns else ""


def _is_bound(table: Table, name: str) -> bool:
    bases = (name.replace(bound, "", 1) for bound in ("_low", "_high") if bound in name)
    return any(base in table.columns for base in bases)
