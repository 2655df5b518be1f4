"""Running CUDA kernels on a host without a GPU, to check them and count their accesses.

g++ compiles the unchanged `.cu` files (`compiler`). They run on this project's own runtime
(`binding`): one fiber per thread of a block, one block after the other. A build has one of these
modes:

- ``separate`` and ``fused``: optimised, for the numerics. Products are rounded before the addition,
  or fused (FMA) as nvcc does by default.
- ``counted``: not optimised; every load, store and basic block of the source calls the runtime.
- ``large``: optimised; addresses and overflows of signed integers are checked. Only the last block
  of a launch runs, on buffers that are nearly all zeros and take no memory.

A counted run reports faults with the source line of the kernel (`KernelFault`). Faults of memory
are accesses out of bounds of a buffer, of shared memory or of an array; misaligned vectors; races
in shared memory between two barriers, and in global memory, also between blocks. Faults of control
are different barriers of the threads of a block; warp functions that not all lanes of their mask
reach; failed assertions; divisions by zero; loops that do not end; recursion that is too deep.
`limited` bounds the time and the memory of the whole check.

Stores to A and B are faults, and so are loads from C before a store. Three events are faults only
if a fault or a wrong product follows: a load of uninitialised shared memory, a shuffle from a lane
that does not take part, both of which give NaN, and an overflow. The message then names their line
(`Cause` in runtime.h). The modes other than ``counted`` fill C and shared memory with other values
(`check.FILLS`). Stores of one value by several threads are no race unless another thread loads it
before the next barrier. Barriers ignore threads that have ended. On an H200, compute-sanitizer
(racecheck and synccheck) gives the same verdicts on these cases.

A counted run counts per source line: accesses of threads; requests of warps; for global memory the
32-byte sectors and 128-byte cache lines of a request; for shared memory the wavefronts of a request
and their minimum. A request is the set of accesses by the lanes of a warp from one place in the
code that a GPU executes together. Lanes in the same basic block advance together, the lowest block
first. Lanes therefore meet again after a branch and in the same iteration of a loop. The number of
wavefronts is the largest number of distinct words in one of the 32 banks, for 32, 16 or 8 lanes at
a time with accesses of 4, 8 or 16 bytes. If lanes access the same address in pairs, twice as many
lanes with 8 or 16 bytes are served at a time. These are the definitions of Nsight Compute's L1
counters (NVIDIA, Nsight Compute Profiling Guide, Memory Tables), except the rule for pairs, which
follows from these counters on an H100.

Elements are float32, float64, 32-bit integers, or numbers of 16 and 8 bits (`half.h`). Numbers of
16 bits are rounded to nearest even after each operation, as on a GPU. A kernel of the study is
compiled once per type (``-DELEMENT=``).

Barrier objects (cuda::barrier) order the accesses of the threads that arrive before those of the
threads that wait; a race between others is a fault, and so is a phase that never ends. If threads
of several warps have loaded a word, all that they did before the phase ended counts as before it.

Limits:

- x86-64 Linux with g++; one source file per kernel, with headers of CUDA and of C, and without
  functions of the C library except those of CUDA (functions.h). Where CUDA states an error bound,
  the last digits may differ from those of a GPU. `__device__` functions that return structures
  must be `__forceinline__`.
- Of inline PTX, `ptx` translates what public kernels of products contain; other instructions are
  refused by name. Cooperative groups end at a block. Code between
  ``#ifdef __CUDACC__`` or ``#if __CUDA_ARCH__ …`` and its ``#else`` is exempt. If it contains
  unsupported features, the host runs the code after ``#else`` instead: plain C++ with the same
  indices and results, except the order of sums; `compiler.unchecked_lines` finds what does not run.
- For a kernel on tensor cores, indices, scales, splits and bounds are therefore checked, and
  instructions are not. Reads of shared memory by tensor cores are checked (`host_tensor_operand`)
  and not counted.
- Atomic operations and operands of tensor cores are checked and not counted, as CUDA leaves open
  which lanes load the elements of a fragment (`tensor.h`). The sums of a product of fragments are
  rounded once, where tensor cores may cut them off.
- Stores of less than an element, or than 4 bytes, to global memory are not checked for races.
- A union cannot contain numbers of 16 bits: their type has a constructor here.
- Machine code may merge loads: nvcc makes one 16-byte load from four steps along a row of a shared
  tile. A GPU then executes fewer loads than the requests counted here, for the same words and with
  fewer wavefronts. If all lanes read the same 16 bytes, four steps take two wavefronts; lanes that
  read down a column conflict once per four steps.
"""
