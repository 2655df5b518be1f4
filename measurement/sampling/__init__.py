"""The order and the number of samples, taken in worker processes."""
