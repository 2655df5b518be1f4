"""The CUDA kernels of the study: sources, catalog and build."""
