"""Tools that check kernels or add tables to a recording: compute-sanitizer, ncu, accuracy."""
