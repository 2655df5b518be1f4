"""Schema of the study's tables: the columns of each table, with type, unit and heading.

The schema governs writing (`analysis.data.store.write`), reading (`analysis.data.store.Store`), the
report (`analysis.render`) and docs/reference/tables.md (``python -m analysis schema``).
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeVar, cast

Value = TypeVar("Value")
Kind = Literal["text", "flag", "count", "number"]


@dataclass(frozen=True)
class Unit:
    """The display of a quantity: factor from SI, unit name, significant digits.

    Digits None: as few digits as possible, for rounded published values. Digits 0: whole numbers.
    """

    factor: float
    name: str
    digits: int | None


S = Unit(1.0, "s", 4)
MS = Unit(1e3, "ms", 4)
US = Unit(1e6, "µs", 3)
GFLOPS = Unit(1e-9, "GFLOP/s", 4)
TFLOPS = Unit(1e-12, "TFLOP/s", 3)
GB_PER_S = Unit(1e-9, "GB/s", 3)
BYTES = Unit(1.0, "B", 0)
KIB = Unit(1 / 1024, "KiB", None)
MIB = Unit(1 / 1024**2, "MiB", None)
GIB = Unit(1 / 1024**3, "GiB", 3)
TIMES = Unit(1.0, "×", 3)
PERCENT = Unit(100.0, "%", 2)
COUNT = Unit(1.0, "", 0)
BLOCK = Unit(1.0, "", 1)  # a block size, or rows and columns of a tile in one number
PLAIN = Unit(1.0, "", 3)
FACTOR = Unit(1.0, "", 4)
_MORE = (
    Unit(1e-9, "GB", 3),
    Unit(1e-6, "MHz", 4),
    Unit(1.0, "°C", 0),
    Unit(1.0, "J", 3),
    Unit(1e-9, "GFLOP/J", 3),
    Unit(1.0, "W", 3),
)
_UNITS = {unit.name: unit for unit in (S, MS, US, GFLOPS, GB_PER_S, BYTES, KIB, TIMES, PERCENT)}
_UNITS |= {unit.name: unit for unit in _MORE} | {"-": PLAIN, "block": BLOCK}


@dataclass(frozen=True)
class Column:
    """A column: its name, the type of its cells, its heading and the unit in the report."""

    name: str
    kind: Kind
    heading: str
    unit: Unit


@dataclass(frozen=True)
class Table:
    """A table: its description and its columns in order."""

    name: str
    description: str
    columns: tuple[str, ...]


# Every column is declared here once. The first entries list columns by type: they have no unit, and
# their heading is their name. Every other line declares one column: name, type, unit, heading.
# Unit "-" is no unit. Parentheses give the significant digits, or "printed" for published values.
# A * in a name stands for any words, which replace the * in the heading. The longest name applies.
_COLUMNS = """
text: recording recording_* device source machine variant host_memory build series quantity kernels
    verdict reason status kind basis unit kernel_timing location system side listed_in commit
    architecture nvcc item matrices limit explanation claim rule compute_capability model parameter
    method test role direction data intensity start part throttle_reasons phase implementation
flag: simulated stale live agrees agree used host_work differs
count: batch threads candidates samples session sessions rounds seed multiprocessors launches
    registers_per_thread threads_per_block *_per_multiprocessor instructions cases parameters sizes
    copies processes pairs table *_table
number: value flop_per_byte_* unrolling theory per_request *_per_request per_thread expected cycles
    error_factor log_residual slope degrees_of_freedom
gpu                          text    -        GPU
gpu_*                        text    -        GPU *
gpu_name                     text    -        GPU model
cpu_model                    text    -        CPU model
after_variant                text    -        variant, previous step
*_variant                    text    -        variant, *
dtype                        text    -        element type
idea                         text    -        change
m                            count   -        M
n                            count   -        N
*_n                          count   -        N, *
k                            count   -        K
block_size                   count   block    B
after_block_size             count   block    B, previous step
*_block_size                 count   block    B, *
*_host_memory                text    -        host memory, *
after_threads                count   -        threads, previous step
*_threads                    count   -        threads, *
*_samples                    count   -        samples, *
samples_*                    count   -        samples, *
*_sessions                   count   -        sessions, *
cells                        count   -        configurations
cells_*                      count   -        configurations, *
*_verdict                    text    -        verdict, *
*_value                      number  -        value, *
is_*                         flag    -        *
dirty                        flag    -        uncommitted changes
of                           text    -        ratio of
draws                        count   -        bootstrap draws
total_s                      number  ms       end-to-end
after_total_s                number  ms       end-to-end, previous step
*_total_s                    number  ms       end-to-end, *
host_s                       number  ms       host work
h2d_s                        number  ms       H2D copy
d2h_s                        number  ms       D2H copy
in_run_kernel_s              number  ms       kernel, in-run
unthrottled_in_run_kernel_s  number  ms       kernel, in-run, unthrottled
overhead_s                   number  ms       overhead
kernel_s                     number  ms       kernel-only
kernel_batch_s               number  ms       kernel, back to back
time_s                       number  ms       time
after_time_s                 number  ms       time, previous step
*_time_s                     number  ms       time, *
block_*_time_s               number  ms       time, B = *
block_unroll4_*_time_s       number  ms       time, B = *
flop_per_s                   number  GFLOP/s  throughput
*_flop_per_s                 number  GFLOP/s  throughput, *
speedup                      number  ×        speedup
*_speedup                    number  ×        speedup, *
block_*_speedup              number  ×        speedup, B = *
block_unroll4_*_speedup      number  ×        speedup, B = *
naive_speedup                number  ×        speedup over the fastest naive
naive_flop_per_s             number  GFLOP/s  throughput, naive
total_speedup                number  ×        speedup over naive (B = 32), end-to-end
kernel_speedup               number  ×        speedup over naive (B = 32), kernel-only
cpu_naive_speedup            number  ×        speedup over the naive CPU loop
cpu_own_speedup              number  ×        speedup over own C code
cpu_blas_speedup             number  ×        speedup over BLAS, one thread
cpu_blas_all_speedup         number  ×        speedup over BLAS, all threads
cpu_best_speedup             number  ×        speedup over the fastest CPU code
ratio                        number  ×        ratio
factor                       number  ×        factor
share                        number  %        share
break_even_location          text    -        break-even location
break_even_n                 number  -        break-even size N
break_even_least_n           count   -        smallest N, break-even
break_even_largest_n         count   -        largest N, break-even
least_n                      count   -        smallest N
largest_n                    count   -        largest N
slower_at                    count   -        slower at N
faster_at                    count   -        faster at N
changed                      text    -        change
after                        text    -        previous step
share_of_library             number  %        share of cuBLAS
over_library                 number  ×        relative to cuBLAS
units                        text    -        arithmetic units
share_of_units               number  %        share of unit throughput
traffic_bytes                number  GB       memory traffic
bound                        text    -        nearest ceiling
limited_by                   text    -        limited by
bound_s                      number  ms       attainable time
*_bound_s                    number  ms       *-bound time
share_of_bound               number  %        share of ceiling
balance_flop_per_byte        number  -        machine balance (flop per byte)
first                        text    -        reference GPU
memory_bytes_per_s           number  GB/s     memory bandwidth
link_bytes_per_s             number  GB/s     link bandwidth
at_once                      flag    -        GPUs measured at once
*_utc                        text    -        *, UTC
stale_sources                text    -        changed sources
stopping                     text    -        number of samples
coverage_*                   number  %        simulated coverage, *
worst_row                    count   -        row of the largest error
worst_column                 count   -        column of the largest error
worst_error                  number  -        largest error
worst_bound                  number  -        error bound there
*_shared_bytes               count   B        shared memory, *
spill_*_bytes                count   B        spill *s
stack_bytes                  count   B        stack
cubin_sha256                 text    -        SHA-256 of the cubin
energy_j                     number  J        energy per product
flop_per_j                   number  GFLOP/J  energy efficiency
power_w                      number  W        power
idle_power_w                 number  W        idle power
duration_s                   number  s        duration
launch_s                     number  ms       time per launch
worst_units                  number  -        largest error
rms_units                    number  -        RMS error
parts_s                      number  ms       sum of the parts
limit_s                      number  ms       longest part
share_of_limit               number  %        longest part / end-to-end
occupancy                    number  %        occupancy
limiter                      text    -        occupancy limited by
fmas                         count   -        FMAs
fma_share                    number  %        FMA share
loop_*                       count   -        *, main loop
loop_global_loads_*          count   -        *-bit global loads, main loop
loop_shared_loads_*          count   -        *-bit shared loads, main loop
loop_shared_stores_*         count   -        *-bit shared stores, main loop
loop_fma_share               number  %        FMA share, main loop
widest_*_bits                count   -        widest * (bits)
shared_*_conflicts_per_request number - bank conflicts per shared *
ncu_metric                   text    -        Nsight Compute metric
merged                       number  -        theory, merged
host                         number  -        host execution
counter                      number  -        hardware counter
counter_over_theory          number  -        counter / theory
line                         count   -        source line
measured                     text    -        measured quantity
above                        text    -        numerator
below                        text    -        denominator
documented_value             count   -        CUDA programming guide
driver_value                 count   -        driver
adds                         text    -        added term
log_rms                      number  -        fit error (log RMS)
left_out_log_rms             number  -        leave-one-out error (log RMS)
left_out_factor              number  -        leave-one-out error (factor)
left_out_*_factor            number  -        leave-one-out error (factor), *
left_out_share_within        number  %        configurations within the error factor
from_n                       count   -        from N
over_best                    number  ×        error / best model's error
aicc                         number  -        AICc
aicc_above_least             number  -        ΔAICc
evaluated                    count   -        evaluated configurations
evaluated_within             count   -        within a factor of 1.5
evaluated_factor             number  ×        error factor, evaluated
evaluated_from_n             count   -        evaluated from N
worst_factor                 number  -        largest error factor
selected_on_this_gpu         flag    -        selected on this GPU
cells_inside                 count   -        inside 95 % interval
inside_share                 number  %        share inside
inside_*_share               number  %        share inside, *
interval_factor              number  -        interval (factor)
error_before                 number  -        error without the term
error_after                  number  -        error with the term
error_bound                  number  -        error bound
error_share                  number  %        error
predicted_s                  number  ms       predicted time
in_interval                  flag    -        inside interval
inside                       flag    -        inside interval
left_out_log_residual        number  -        leave-one-out log residual
memory_bytes                 number  KiB      memory
least_bytes                  number  KiB      smallest copy
most_bytes                   number  KiB      largest copy
latency_s                    number  µs       latency
bytes_per_s                  number  GB/s     bandwidth
knee_bytes                   number  KiB      knee
beyond_bytes_per_s           number  GB/s     bandwidth beyond the knee
cells_log_sd                 number  -        between configurations (log SD)
half_width                   number  -        interval half-width (log)
half_width_*                 number  -        interval half-width (log), *
holdout                      flag    -        held out
holdout_sizes                count   -        held-out sizes
holdout_log_rms              number  -        held-out error (log RMS)
size_bytes                   number  KiB      size
copy_s                       number  ms       copy
line_s                       number  ms       model without knee
knee_s                       number  ms       model with knee
cpu_baseline                 text    -        CPU baseline
filled_s                     number  ms       time / wave quantization
outer_slope                  number  -        slope beyond
left_out_*                   number  -        leave-one-out error (log), *
*_cpus                       count   -        * CPUs
l*_bytes                     number  KiB      L* cache
l*_shared_by                 count   -        CPUs per L* cache
blas                         text    -        BLAS
blas_*                       text    -        BLAS *
clock_*_hz                   number  MHz      clock, *
tolerance                    number  %        tolerance
busy_other_threads           number  -        other busy threads
busy_other_threads_max       number  -        other busy threads, maximum
efficiency                   number  %        efficiency
samples_throttled_*          count   -        throttled samples, *
samples_throttled            count   -        throttled samples
samples_clock_changed        count   -        samples with a changed clock
sm_clock_hz                  number  MHz      SM clock
sm_clock_*_hz                number  MHz      SM clock, *
memory_clock_hz              number  MHz      memory clock
temperature_max_celsius      number  °C       temperature, maximum
temperature_max_*_celsius    number  °C       temperature, maximum, *
power_*_w                    number  W        power, *
init_s                       number  ms       driver start
context_s                    number  ms       context
module_s                     number  ms       module load
allocation_s                 number  ms       allocation
wall_s                       number  s        wall time
busy_s                       number  s        busy time
share_not_busy               number  %        idle share
neighbours                   count   -        busy neighbour GPUs
isolated_s                   number  ms       isolated
with_traffic_s               number  ms       with traffic
p_*                          number  -        p, *
q_*                          number  -        q, *
median_*_s                   number  ms       median, *
matrices_in                  text    -        matrices in
length                       text    -        duration class
between_log_sd               number  -        between sessions (log SD)
common_log_sd                number  -        common to all configurations (log SD)
noise_log_sd                 number  -        noise of a median (log SD)
mean_interval_factor         number  -(4)     interval of the mean (factor)
new_session_interval_factor  number  -(4)     interval of a new session (factor)
medians_*                    count   -        medians, *
share_throttled              number  %        throttled
throttling_shift             number  %        largest shift by throttling
end_to_end_cells             count   -        end-to-end configurations
end_to_end_cells_*           count   -        end-to-end configurations, *
rounding_s                   number  ms       rounding
printed_flop_per_s           number  GFLOP/s(printed) throughput, printed
rate_agrees                  flag    -        agree
constant_s                   number  ms       start-up time
naive_constant_s             number  ms       start-up time, naive
above_constant_s             number  ms       time above start-up
speedup_without_constant     number  -        speedup without start-up time
m0_limit                     number  -        limit m₀
shortest_s                   number  s(printed) shortest time
least_n_kernels              count   -        kernels at the smallest N
least_n_near                 count   -        of these near the start-up time
other_time_s                 number  s(printed) time, other
is_empty                     flag    -        no longer than start-up
headline_flop_per_s          number  GFLOP/s(printed) throughput, headline
headline_s                   number  s(3)     headline
difference_s                 number  s(3)     difference
copy_bytes                   number  KiB      size of a copy
copies_bytes_per_s           number  GB/s     copy bandwidth
growth                       number  ×        growth
n3_growth                    number  ×(printed) growth of N³
tuned_speedup                number  ×(printed) speedup, tuned
tuned_least_flop_per_s       number  GFLOP/s(printed) throughput, tuned, least
tuned_most_flop_per_s        number  GFLOP/s(printed) throughput, tuned, most
over_headline                number  ×        relative to headline
"""

# Each table: name, description, and its columns in order. ± adds the two bounds of a 95 % interval.
# A line with = overrides the declaration of one column in this table.
_TABLES = """
summary: every configuration measured: medians, intervals, throughput
    recording gpu device variant dtype batch m n k block_size host_memory threads build series
    samples sessions total_s± host_s± h2d_s± in_run_kernel_s± d2h_s± overhead_s kernel_s±
    kernel_timing kernel_samples
    flop_per_s = number GFLOP/s throughput, end-to-end
    kernel_flop_per_s
speedups: speedups over the naive kernel in blocks of 32×32 and over five CPU baselines
    source machine n variant block_size host_memory total_speedup± kernel_speedup±
    cpu_naive_speedup± cpu_own_speedup± cpu_blas_speedup± cpu_blas_all_speedup±
    cpu_best_speedup± sessions samples naive_samples cpu_naive_samples cpu_own_samples
    cpu_blas_samples cpu_blas_all_samples cpu_best_samples cpu_own_variant cpu_own_block_size
    cpu_blas_all_threads cpu_best_variant cpu_best_block_size cpu_best_threads
answers: the three answers per GPU: fastest implementation, speedup over the CPU, break-even size
    recording gpu sessions n variant block_size host_memory threads total_s± is_library candidates
    implementation_verdict next_variant next_block_size next_total_s± own_variant own_block_size
    own_total_s± other_host_memory other_total_s± speedup_n speedup_variant speedup_block_size
    speedup_host_memory cpu_best_variant cpu_best_threads speedup± speedup_verdict
    break_even_location break_even_n± break_even_least_n break_even_largest_n
    break_even_host_memory break_even_variant break_even_block_size break_even_cpu_variant
    break_even_cpu_threads break_even_verdict
ladder_summary: each kernel of the ladder at its largest size, with its baselines and ceilings
    recording gpu variant idea is_library is_fastest n block_size samples kernel_s±
    kernel_flop_per_s after after_block_size after_flop_per_s speedup± verdict naive_block_size
    naive_flop_per_s naive_speedup± share_of_library units share_of_units traffic_bytes bound
    share_of_bound limited_by
table1: Table 1 of source V, published and measured: naive kernel, first machine
    source machine n cpu_time_s± cpu_flop_per_s gpu_time_s± gpu_flop_per_s speedup±
table2: Table 2 of source V, published and measured: naive kernel, second machine
    source machine n cpu_time_s± cpu_flop_per_s gpu_time_s± gpu_flop_per_s speedup±
table3: Table 3 of source V, published and measured: a column of B in shared memory
    source machine n naive_time_s± buffered_column_time_s± buffered_column_speedup±
table4: Table 4 of source V, published and measured: a column of B or a row of A in shared memory
    source machine n naive_time_s± naive_flop_per_s buffered_column_time_s±
    buffered_column_flop_per_s buffered_column_speedup± buffered_row_time_s±
    buffered_row_flop_per_s buffered_row_speedup±
table5: Table 5 of source V, published and measured: tiles in shared memory
    source machine n naive_time_s± block_1_time_s± block_1_speedup± block_2_time_s±
    block_2_speedup± block_4_time_s± block_4_speedup± block_8_time_s± block_8_speedup±
    block_16_time_s± block_16_speedup± block_32_time_s± block_32_speedup±
table6: Table 6 of source V, published and measured: tiles, four elements per thread
    source machine n naive_time_s± block_unroll4_4_time_s± block_unroll4_4_speedup±
    block_unroll4_8_time_s± block_unroll4_8_speedup± block_unroll4_16_time_s±
    block_unroll4_16_speedup± block_unroll4_32_time_s± block_unroll4_32_speedup±
gpu_comparison: the fastest implementation on each GPU, compared with the first GPU
    gpu gpu_name sessions n quantity host_memory variant block_size time_s± first first_sessions
    first_variant first_block_size first_time_s candidates ratio± basis verdict
figure2: Figure 2 of source V: its fastest kernel on each GPU, and properties of the GPU
    recording gpu gpu_name simulated n kernel_variant kernel_block_size kernel_flop_per_s±
    pinned_variant pinned_block_size pinned_flop_per_s± pageable_variant pageable_block_size
    pageable_flop_per_s± multiprocessors fma_flop_per_s memory_bytes_per_s link_bytes_per_s
    roofline_flop_per_s
systems: the systems that the sources describe: their variants, checks and best throughput
    source system side variant listed_in recording gpu cells_passed cells_failed
    cells_not_launchable best_flop_per_s dtype batch m n k block_size host_memory threads
recordings: the recordings: device, date, commit, outcome of the checks, changed sources
    recording gpu device gpu_name cpu_model live simulated at_once started_utc finished_utc
    commit dirty sessions samples stopping coverage_two_modes coverage_drift cells_passed
    cells_failed cells_not_launchable stale stale_sources
missing: GPUs without a recording, and the reason
    recording reason
unmeasured_sizes: sizes of the study that no GPU measured, and the range of those measured
    n least_n largest_n
checks: correctness check of each planned configuration
    recording session device variant dtype batch m n k block_size host_memory threads build
    status reason worst_row worst_column worst_error worst_bound
builds: registers, shared memory and spills of each build
    recording architecture variant dtype block_size build registers_per_thread
    static_shared_bytes spill_store_bytes spill_load_bytes stack_bytes nvcc cubin_sha256
environment: provenance of each recording: hosts, GPUs and software
    recording item
    value = text - value
ladder: speedup of each kernel over the previous step, and the change between both
    recording gpu variant block_size after after_block_size dtype batch m n k host_memory
    quantity time_s after_time_s speedup± verdict energy_j flop_per_j changed
accuracy: errors of products of several kinds of matrices, in units of 2⁻²⁴·|A|·|B|
    recording gpu variant dtype batch m n k block_size matrices worst_units rms_units
    over_library
end_to_end_modes: end-to-end runs in pieces or as CUDA graphs, compared with plain runs
    recording gpu variant block_size after after_block_size dtype batch m n k host_memory
    total_s after_total_s speedup± verdict parts_s
    limit = text - longest part
    limit_s share_of_limit
energy: energy per product, from the energy counter of the GPU
    recording gpu variant dtype batch m n k block_size launches duration_s launch_s power_w
    idle_power_w energy_j flop_per_j
machine_code: each build: resources, occupancy, instructions, flop per byte
    recording architecture variant dtype block_size build registers_per_thread
    static_shared_bytes dynamic_shared_bytes spill_store_bytes spill_load_bytes
    threads_per_block blocks_per_multiprocessor warps_per_multiprocessor occupancy limiter
    instructions fmas loop_instructions loop_fmas loop_barriers loop_global_loads_32
    loop_global_loads_64 loop_global_loads_128 loop_shared_loads_32 loop_shared_loads_64
    loop_shared_loads_128 loop_shared_stores_32 loop_shared_stores_64 loop_shared_stores_128
    widest_global_loads_bits widest_shared_loads_bits widest_shared_stores_bits fma_share
    loop_fma_share unrolling batch m n k shared_load_conflicts_per_request
    shared_store_conflicts_per_request flop_per_byte_accessed flop_per_byte_of_sectors
roofline: each variant compared with the measured ceilings of its GPU
    recording gpu variant dtype batch m n k block_size host_memory kernel_s± kernel_flop_per_s
    flop_per_byte_of_sectors balance_flop_per_byte traffic_bytes compute_bound_s l1_bound_s
    shared_bound_s pipe_bound_s l2_bound_s issue_bound_s dram_bound_s bound bound_s share_of_bound
    limited_by units share_of_units
counts: memory accesses per launch: theory, host execution, hardware counters
    recording gpu variant dtype batch m n k block_size build quantity ncu_metric theory merged
    host counter counter_over_theory theory_per_request merged_per_request host_per_request
    counter_per_request agrees explanation
counts_by_line: memory accesses per source line, counted in host execution
    variant dtype batch m n k block_size build line quantity host per_thread per_request
claims: claims of the sources, with measured value and verdict
    recording gpu claim source measured above below block_size quantity host_memory batch m n k
    cases value± expected verdict rule
claim_verdicts: each claim on each GPU model: verdicts of kernels and of end-to-end runs
    gpu gpu_name claim source expected kernel_n kernel_host_memory kernel_block_size kernel_value±
    kernel_verdict total_n total_host_memory total_block_size total_value± total_verdict verdict
limits: launch limits of each GPU, as documented and as reported by the driver
    recording gpu compute_capability limit unit documented_value driver_value agree
models: parameters of each fitted model
    source machine quantity kernels model parameter value± status method unit cycles share cells
    samples draws seed
model_comparison: prediction errors of the models, by leave-one-size-out
    source machine quantity kernels model adds after parameters cells sizes log_rms
    left_out_log_rms± left_out_factor± left_out_median_factor left_out_worst_factor
    left_out_share_within over_best± verdict speedup± aicc aicc_above_least
    evaluated_from_n evaluated_factor evaluated evaluated_within worst_variant worst_block_size
    worst_n worst_factor
model_tests: prediction errors of models and of empirical baselines on held-out data
    source machine quantity kernels test model adds parameters selected_on_this_gpu cells
    log_rms± = number - error (log RMS)
    error_factor over_best± verdict cells_inside inside_share interval_factor
model_steps: the share of the error that each added model term explains
    source machine quantity kernels model after adds share variant block_size error_before
    error_after
model_effects: share of M0's error that each effect removes, averaged over the orders of adding
    source machine quantity kernels from_n model adds share±
model_predictions: measured times, and times predicted by the simplest and by the best model
    source machine quantity kernels model role variant block_size n samples time_s± predicted_s±
    in_interval log_residual left_out_log_residual
model_ratios: the fitted ρ, compared with ratios of latencies and of bandwidths
    source machine basis of value± status
predictors: properties of each GPU that predictions use in addition to the fits
    recording gpu gpu_name multiprocessors memory_bytes
    launch_s = number ms empty kernel
    least_n largest_n error_bound
transfers: models of the transfer time: latency, bandwidth and errors
    recording gpu host_memory direction data model used sizes least_bytes most_bytes latency_s±
    bytes_per_s± knee_bytes beyond_bytes_per_s log_rms left_out_log_rms cells_log_sd half_width
    holdout_sizes holdout_log_rms
transfer_points: copy times, measured and from the transfer models
    recording gpu host_memory direction data n holdout copies size_bytes cells samples copy_s±
    cells_log_sd line_s knee_s log_residual
curves: interpolation of kernel, end-to-end and CPU times between the measured sizes
    recording gpu quantity host_memory cpu_baseline variant block_size threads n samples time_s±
    filled_s slope
    outer_slope half_width_between half_width_beyond half_width left_out_between left_out_beyond
break_even: smallest size N at which the GPU is faster than its host CPU
    recording gpu host_memory kernels cpu_baseline sessions least_n largest_n location
    n± = number - break-even size N
    variant block_size cpu_variant cpu_block_size cpu_threads slower_at faster_at
    cells_without_interval draws seed
predictions: end-to-end times at held-out sizes, measured and predicted
    recording gpu host_memory variant block_size n time_s± predicted_s± error_share inside
    is_library is_fastest is_predicted_fastest
cpu_hosts: hosts: CPU, threads, caches, BLAS
    recording session cpu_model logical_cpus usable_cpus usable_threads memory_bytes l1_bytes
    l1_shared_by l2_bytes l2_shared_by l3_bytes l3_shared_by blas blas_version blas_architecture
cpu_clock: CPU clock before and after the CPU runs
    recording threads samples clock_before_hz clock_before_min_hz clock_before_max_hz
    clock_after_hz clock_after_min_hz clock_after_max_hz tolerance samples_clock_changed
    busy_other_threads busy_other_threads_max
cpu_ladder: speedup of each CPU variant over the previous step, on one thread and on all threads
    recording variant block_size threads time_s after_variant after_block_size after_threads
    after_time_s n speedup± verdict efficiency±
cpu_roofline: each CPU variant compared with the measured ceilings of its host
    recording variant block_size threads n total_s± flop_per_s intensity flop_per_byte_requested
    flop_per_byte_beyond_l1 flop_per_byte_beyond_l2 flop_per_byte_beyond_l3 compute_bound_s
    l1_bound_s l2_bound_s l3_bound_s memory_bound_s bound bound_s share_of_bound limited_by
cpu_split: speedup over the naive CPU loop, split into factors
    recording gpu machine host_memory n start part variant block_size threads time_s
    after_variant after_block_size after_threads after_time_s factor± share±
telemetry: clocks, temperature, power and throttling per configuration
    recording gpu device variant dtype batch m n k block_size host_memory threads samples
    samples_throttled throttle_reasons sm_clock_hz sm_clock_min_hz memory_clock_hz
    temperature_max_celsius power_w total_s± in_run_kernel_s± unthrottled_total_s±
    unthrottled_in_run_kernel_s±
back_to_back: short kernels launched back to back, compared with single launches
    recording gpu device variant dtype batch m n k block_size launches rounds kernel_batch_s±
    host_memory kernel_s± ratio±
cold_starts: times of the first product in a new process
    recording gpu device variant dtype batch m n k block_size host_memory threads processes
    init_s± context_s± module_s± allocation_s± h2d_s± in_run_kernel_s± d2h_s± total_s±
    warm_total_s± ratio±
ceilings: measured ceilings: throughput, bandwidth and latency of GPU, link and CPU
    recording gpu device quantity host_memory size_bytes threads rounds value±
phases: duration of each phase of a recording
    recording gpu session device phase wall_s busy_s share_not_busy
interference: end-to-end runs with and without traffic of the other GPUs in the host
    recording gpu device variant dtype batch m n k block_size host_memory threads neighbours
    quantity pairs isolated_s± with_traffic_s± ratio± p_differs p_same q_differs q_same verdict
agreement: share of medians that agree between recordings of one GPU model
    recording_a gpu_a recording_b gpu_b kind quantity tolerance cells cells_agreeing share
agreement_cells: configurations whose medians disagree, with the state of both GPUs
    recording_a gpu_a recording_b gpu_b kind quantity variant dtype batch m n k block_size
    host_memory threads samples_a samples_b median_a_s± median_b_s± ratio± sm_clock_a_hz
    sm_clock_b_hz temperature_max_a_celsius temperature_max_b_celsius power_a_w power_b_w
    samples_throttled_a samples_throttled_b
sessions: variation between sessions, and coverage of the intervals in leave-one-out tests
    recording gpu quantity host_memory host_work threads matrices_in length sessions cells
    between_log_sd common_log_sd noise_log_sd degrees_of_freedom mean_interval_factor
    new_session_interval_factor medians_evaluated medians_inside inside_share
    inside_least_noise_share inside_middle_noise_share inside_most_noise_share
session_effects: mean effect of each session on the times of a kind
    recording gpu quantity host_memory host_work threads matrices_in length session cells ratio
threats: threats to validity per GPU: throttling, wide intervals, disagreement
    recording gpu samples samples_throttled share_throttled throttling_shift sm_clock_low_hz
    sm_clock_high_hz end_to_end_cells end_to_end_cells_without_interval end_to_end_cells_wide
    medians_compared medians_reproduced cells_failed stale dirty simulated
audit_cells: each published time: its throughput, and its speedup without the start-up time
    table machine implementation n block_size
    time_s = number s(printed) time
    rounding_s printed_flop_per_s
    flop_per_s± = number GFLOP/s throughput from the time
    rate_agrees constant_s± above_constant_s
    naive_time_s = number s(printed) time, naive
    naive_constant_s speedup speedup_without_constant± m0_limit
audit_constants: start-up times contained in the published tables
    machine first_table last_table
    constant_s± = number s(3) start-up time
    kernels = count - kernels
    cells shortest_s least_n least_n_kernels least_n_near log_rms
audit_pairs: pairs of published block sizes, and values printed twice
    kind table other_table machine implementation n block_size other_block_size
    time_s = number s(printed) time
    other_time_s
    above_constant_s = number s(2) time above start-up
    rounding_s differs is_empty
audit_headline: the highest throughput named in the text of source V, compared with its Table 6
    machine n headline_flop_per_s headline_s± table implementation block_size
    time_s± = number s(printed) time
    flop_per_s difference_s± copies copy_bytes copies_bytes_per_s± link_bytes_per_s
audit_cpu: the published CPU times: growth with N, and the speedups named in the text
    table machine n before_n
    cpu_time_s = number s(printed) time, CPU
    cpu_flop_per_s growth n3_growth tuned_speedup tuned_flop_per_s tuned_least_flop_per_s
    tuned_most_flop_per_s headline_s over_headline stated_speedup verdict
"""

# How headings write some words of column names.
_WORDS = {"cpu": "CPU", "gpu": "GPU", "blas": "BLAS", "fma": "FMA", "fmas": "FMAs", "dram": "DRAM"}
_WORDS |= {
    "a": "A",
    "b": "B",
    "l1": "L1",
    "l2": "L2",
    "l3": "L3",
    "own": "own code",
    "next": "next fastest",
}
_WORDS |= {"pinned": "pinned memory", "pageable": "pageable memory"}


def interval_columns(column: str) -> tuple[str, str]:
    """Return the columns with the bounds of `column`: its name, _low or _high, then its unit."""
    stem, unit = (column[:-2], "_s") if column.endswith("_s") else (column, "")
    return f"{stem}_low{unit}", f"{stem}_high{unit}"


def with_bounds(column: str) -> list[str]:
    """Return a column and its bounds, in the order of the tables."""
    return [column, *interval_columns(column)]


def bounded(column: str, value: Value, low: Value, high: Value) -> dict[str, Value]:
    """Return a value and its bounds, by column."""
    return dict(zip(with_bounds(column), (value, low, high), strict=True))


def renaming(column: str, to: str) -> dict[str, str]:
    """Return the new names of a column and of its bounds, by present name."""
    return dict(zip(with_bounds(column), with_bounds(to), strict=True))


def _parse() -> None:
    """Fill `TABLES` and the declarations."""
    for entry in re.split(r"\n(?! )", _COLUMNS.strip()):
        kind, plain, names = entry.partition(": ")
        if plain:
            _DECLARED.update((name, [kind, "-", name.replace("_", " ")]) for name in names.split())
        else:
            name, *declaration = entry.split(None, 3)
            _DECLARED[name] = declaration
    for entry in re.split(r"\n(?! )", _TABLES.strip()):
        header, *lines = entry.splitlines()
        table, description = header.split(": ", 1)
        columns: list[str] = []
        for line in lines:
            names, _, override = line.partition(" = ")
            for name in names.split():
                base = name.removesuffix("±")
                columns += with_bounds(base) if name.endswith("±") else [base]
                if override:
                    _DECLARED[f"{table}.{base}"] = override.split(None, 2)
        TABLES[table] = Table(table, description, tuple(columns))


@cache
def column(table: str, name: str) -> Column:
    """Return a column of a table; a bound has the type and unit of its value."""
    base = _bounded_column(table, name)
    kind, unit, heading = _declaration(table, base or name)
    if base:
        heading += ", lower bound" if name == interval_columns(base)[0] else ", upper bound"
    return Column(name, cast(Kind, kind), heading, _unit(unit, kind))


def _declaration(table: str, name: str) -> list[str]:
    """Return type, unit and heading; raise KeyError if `name` is not declared."""
    exact = _DECLARED.get(f"{table}.{name}") or _DECLARED.get(name)
    if exact:
        return exact
    patterns = {each: each.replace("*", "(.+)") for each in _DECLARED if "*" in each}
    fitting = [each for each, pattern in patterns.items() if re.fullmatch(pattern, name)]
    if not fitting:
        raise KeyError(f"{table}.{name} is not declared; add a line to analysis/schema.py")
    best = max(fitting, key=len)
    kind, unit, heading = _DECLARED[best]
    words = re.sub(patterns[best], r"\1", name).split("_")
    return [kind, unit, heading.replace("*", " ".join(_WORDS.get(word, word) for word in words))]


def _unit(text: str, kind: str) -> Unit:
    """Return a unit by name, with other significant digits if it has a suffix such as (3)."""
    name, _, digits = text.rstrip(")").partition("(")
    unit = COUNT if (kind, name) == ("count", "-") else _UNITS[name]
    if not digits:
        return unit
    return replace(unit, digits=None if digits == "printed" else int(digits))


def _bounded_column(table: str, name: str) -> str | None:
    """Return the column that `name` is a bound of, or None."""
    bases = (name.replace(bound, "", 1) for bound in ("_low", "_high") if bound in name)
    return next((base for base in bases if base in TABLES[table].columns), None)


def documentation() -> str:
    """Return all tables with name, type, unit and heading of each column, in Markdown."""
    lines = [
        "# Tables of the study",
        "",
        "`python -m analysis schema` writes this page from `analysis/schema.py`. The CSV files in",
        "`results/tables/` use SI units. The report converts values to the unit given here. ±: the",
        "table also has the bounds of a 95 % interval, in columns with `_low` and `_high`.",
    ]
    for table in TABLES.values():
        lines += ["", f"## {table.name}.csv", ""]
        lines += [f"{table.description[0].upper()}{table.description[1:]}.", ""]
        lines += ["| column | type | unit | heading |", "|---|---|---|---|"]
        for name in table.columns:
            if not _bounded_column(table.name, name):
                each = column(table.name, name)
                mark = " ±" if interval_columns(name)[0] in table.columns else ""
                lines.append(
                    f"| `{name}`{mark} | {each.kind} | {each.unit.name} | {each.heading} |"
                )
    return "\n".join(lines) + "\n"


TABLES: dict[str, Table] = {}
_DECLARED: dict[str, list[str]] = {}
_parse()
