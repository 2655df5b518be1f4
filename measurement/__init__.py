"""Measuring: device and CPU sessions, the protocol, the correctness gate, recordings."""
