"""CUDA kernels on a host without a GPU: checked, and counted.

The `.cu` files are compiled by g++ as they are (`compiler`), and run on a runtime of this project's
own (`binding`): a fiber for each thread of a block, one block after the other. Three modes of a
build:

- ``separate`` and ``fused``: optimised, for the numerics, with every product rounded before it is
  added, or with fused FMAs as nvcc makes them by default;
- ``counted``: not optimised, and instrumented so that each load and store of the source calls the
  runtime first.

What a counted run finds, each with the kernel's source line (`KernelFault`): accesses out of bounds
of a buffer, of shared memory, of an array; misaligned vectors; races in shared memory between two
barriers, and in global memory, between blocks too; barriers that not all threads of a block reach;
reads of shared memory that nobody has written.

What it counts, for each source line: accesses of threads; requests of warps, where a request is
what the lanes of a warp access from one place in the code, at their same visit to it since the last
barrier; for global memory the sectors of 32 bytes that a request falls into, and the lines of 128
bytes; for shared memory the wavefronts of a request (the most distinct words that one of the 32
banks has to give, for 32, 16 or 8 lanes at a time if an access is 4, 8 or 16 bytes; for twice as
many of 8 or 16 bytes where lanes access the same address in pairs) and the fewest that it could
have had. That is how Nsight Compute's counters of L1 are defined (NVIDIA, Nsight Compute Profiling
Guide, Memory Tables), but for the pairs, which were found by these counters on an H100.

Elements may be float32, float64 or 32-bit integers; a kernel for several of them is compiled once
for each (``-DELEMENT=``).

Limits. x86-64 Linux with g++. One source file a kernel, accesses of 4, 8 or 16 bytes, dynamic
shared memory called `smem`. `__device__` functions that return structures must be
`__forceinline__`. No inline PTX, warp shuffles and votes, atomics, tensor cores and 16-bit numbers:
they are refused by name, but for what stands between ``#ifdef __CUDACC__`` or ``#if __CUDA_ARCH__
…`` and its ``#else``, which is for GPUs alone. What follows the ``#else`` takes its place here:
plain C++ with the same indices and the same results but for the order of sums. So indices, scales,
splits and bounds are checked of a kernel on tensor cores, and not its instructions; what they read
of shared memory is checked (`host_tensor_operand`), and not counted. Asynchronous copies are the
plain ones that take their places, at once: a wait that is missing is not seen. A global word that
is read and only later written by another thread is no race that is seen. Where lanes take different
turns in one loop, the visits that make one request on a GPU may differ from those counted here.
Machine code may load only once what source code loads twice, or several words with one instruction:
nvcc makes one load of 16 bytes of four steps along a row of a shared tile, so that a GPU executes
fewer loads than there are requests here. The words are the same, the wavefronts fewer: where all
lanes read the same 16 bytes there are two for the four steps, and lanes that read down a column
conflict once for four steps.
"""
