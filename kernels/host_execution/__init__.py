"""CUDA kernels on a host without a GPU: checked, and counted.

The `.cu` files are compiled by g++ as they are (`compiler`), and run on a runtime of this project's
own (`binding`): a fiber for each thread of a block, one block after the other. Three modes of a
build:

- ``separate`` and ``fused``: optimised, for the numerics, with every product rounded before it is
  added, or with fused multiply-adds as nvcc makes them by default;
- ``counted``: not optimised, and instrumented so that each load and store of the source calls the
  runtime first.

What a counted run finds, each with the kernel's source line (`KernelFault`): accesses out of bounds
of a buffer, of shared memory, of an array; misaligned vectors; races in shared memory between two
barriers, and in global memory, between blocks too; barriers that not all threads of a block reach;
reads of shared memory that nobody has written.

What it counts, for each source line: accesses of threads; requests of warps, where a request is
what the lanes of a warp access from one place in the code, at their same visit to it since the last
barrier; for global memory the sectors of 32 bytes that a request falls into; for shared memory the
wavefronts of a request (the most distinct words that one of the 32 banks has to give, for 32, 16 or
8 lanes at a time if an access is 4, 8 or 16 bytes) and the fewest that it could have had. That is
how Nsight Compute's counters of L1 are defined (NVIDIA, Nsight Compute Profiling Guide, Memory
Tables).

Limits. x86-64 Linux with g++. One source file a kernel, elements of 4, 8 or 16 bytes, dynamic
shared memory called `smem`. `__device__` functions that return structures must be
`__forceinline__`. No inline PTX, warp shuffles and votes, atomics, tensor cores and 16-bit numbers:
they are refused by name. A global word that is read and only later written by another thread is no
race that is seen. Where lanes take different turns in one loop, the visits that make one request on
a card may differ from those counted here. Machine code may load what source code loads twice only
once, or two words with one instruction: nvcc does so for the shared loads of the block kernels, so
that a card executes fewer load instructions than there are requests here. Words and wavefronts,
which are what costs time, are the same.
"""
