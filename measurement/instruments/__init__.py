"""Tools that check kernels or add tables to recordings: compute-sanitizer, ncu, accuracy."""
