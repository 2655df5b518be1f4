"""The kernels of the study: ladder, machine code, memory accesses, roofline, energy, accuracy."""
