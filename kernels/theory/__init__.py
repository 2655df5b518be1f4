"""The memory accesses of each kernel, predicted from its source without running it."""
