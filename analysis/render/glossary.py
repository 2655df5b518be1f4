"""The glossary of the report and of docs/reference/glossary.md."""

TERMS = {
    "bank conflict": "A further wavefront of a shared-memory request, needed if its lanes read "
    "different words of one bank.",
    "baseline": "The program or kernel over which a speedup is given.",
    "between-session variance": "The variance of log medians between sessions, beyond the noise of "
    "the medians: of effects shared by all configurations of a kind, and of their own effects.",
    "block": "The threads that a multiprocessor runs together and that share its shared memory; "
    "also the name of the variant that multiplies tile by tile.",
    "block size B": "The edge of the square tile that a block multiplies; on the CPU, the edge of "
    "the tile that fits into a cache.",
    "blocking kernel": "A kernel of one thread that holds a stream until all launches of a timing "
    "are queued.",
    "break-even size": "The smallest matrix size N from which an end-to-end run on the GPU takes "
    "less time than the CPU.",
    "ceiling": "A measured maximum of a GPU, a CPU or a link, such as its FMA throughput, a "
    "bandwidth or a latency.",
    "coalesced": "An access is coalesced if neighbouring lanes of a warp access neighbouring "
    "elements, so that few sectors are moved.",
    "configuration (cell)": "One variant at one shape, block size and element type, with one "
    "kind of "
    "host memory (on a CPU: one number of threads).",
    "correctness check": "The comparison of a product with a float64 reference before a "
    "configuration is timed.",
    "coverage": "The share of intervals that contain the true value.",
    "end-to-end run": "One complete product on the GPU: copy A and B to the GPU, run the kernel, "
    "copy C back.",
    "end-to-end time (total)": "The time of an end-to-end run by the host's clock.",
    "exact build": "A build without bounds checks, for sizes that are multiples of the block size.",
    "FLOP per byte": "Floating-point operations per byte requested from memory; also called "
    "arithmetic intensity.",
    "FLOP/s": "Floating-point operations per second; an FMA counts as two operations.",
    "FMA": "A fused multiply-add, the main instruction of a matrix product.",
    "guarded (bounds-checked) build": "A build that checks bounds, for sizes that are not "
    "multiples of the block size.",
    "held out": "Sizes that were measured but excluded from every fit.",
    "host execution": "Running the source of a kernel on the CPU to count its memory accesses and "
    "check its results.",
    "in-run kernel time": "The time between the events around the kernel of an end-to-end run, "
    "which can include launch latency.",
    "interval": "A 95 % confidence interval of a median, a speedup or a parameter.",
    "kernel": "The program that every thread of the GPU runs.",
    "kernel-only time": "The time of a kernel without copies and launch latency, measured behind a "
    "blocking kernel.",
    "ladder": "The sequence of kernels in which each step changes one property of an earlier one.",
    "leave-one-out": "One part of the data is excluded from the fit and predicted; this is "
    "repeated "
    "for each part.",
    "line": "Four neighbouring sectors that the L1 cache looks up and serves together.",
    "M0": "The latency model of source V, with one cost per access to global memory and one per "
    "access to shared memory.",
    "matrix size N": "The number of rows and of columns of a square matrix.",
    "occupancy": "The warps of a kernel that a multiprocessor can hold, divided by its maximum.",
    "pageable memory": "Host memory from malloc, which the driver copies through its own buffer.",
    "pinned memory": "Host memory that is locked in place, so that the GPU accesses it directly.",
    "recording": "A folder with every sample of one session, and its hardware and software.",
    "roofline": "The attainable throughput: the smaller of the FMA throughput and of the memory "
    "bandwidth times the FLOP per byte.",
    "sample": "The times of one end-to-end run.",
    "sector": "The unit in which global memory is moved, 32 bytes.",
    "session": "One uninterrupted measurement on one host.",
    "SIMULATED": "The mark of numbers that were computed, not measured.",
    "speedup": "The time of the baseline divided by the time of the implementation; a value above "
    "1 is faster.",
    "stale": "The mark of a recording whose source files have changed since.",
    "throttled": "A sample is throttled if the GPU reported reduced clocks because of power, "
    "temperature or another reason.",
    "tile": "The part of C that a block computes, and the parts of A and B loaded for it.",
    "variant": "One implementation of the product: one source file, or a library.",
    "warp": "The 32 threads (lanes) that a GPU runs in step.",
    "wavefront": "One step of a shared-memory request; a request for single words without bank "
    "conflicts needs one.",
    "η": "The speedup over the naive kernel in the model of source V.",
    "ρ": "The cost of an access to global memory divided by the cost of an access to shared "
    "memory, in the model of source V.",
}


def documentation() -> str:
    """Return the glossary in Markdown."""
    entries = (f"- **{term}**: {meaning}" for term, meaning in TERMS.items())
    return "\n".join(["# Glossary", "", *entries]) + "\n"
