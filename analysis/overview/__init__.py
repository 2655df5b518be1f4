"""The three answers, speedups, and the comparison of GPUs."""
