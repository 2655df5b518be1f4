"""Sampling: the order and the number of samples, which worker processes take."""
