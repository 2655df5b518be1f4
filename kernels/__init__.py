"""The CUDA kernels of the study: their sources, their catalog and their build."""
