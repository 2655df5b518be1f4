"""Models of a kernel's time, their fits and their evaluation."""
