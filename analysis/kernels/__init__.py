"""Kernels: ladder, machine code, memory accesses, roofline, energy, accuracy."""
