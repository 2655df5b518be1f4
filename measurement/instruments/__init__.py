"""Tools that add to a recording or check kernels: ncu, compute-sanitizer, accuracy."""
