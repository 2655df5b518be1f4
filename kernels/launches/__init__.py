"""Finding how the kernels of any file are launched, and what the names in a launch mean."""
