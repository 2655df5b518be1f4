"""Kernels: steps of the ladder, machine code, memory accesses, ceilings."""
