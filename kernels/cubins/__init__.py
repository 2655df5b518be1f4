"""Compiled kernels (cubins): their builds, machine code and occupancy."""
