"""Models of a kernel's time."""
