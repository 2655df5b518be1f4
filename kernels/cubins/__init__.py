"""Builds of the kernels: cubins, their machine code and their occupancy."""
