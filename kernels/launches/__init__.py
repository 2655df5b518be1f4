"""How the kernels of any file are launched: their launches, and what the names in them mean."""
