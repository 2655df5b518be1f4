"""Measuring: sessions of GPU and CPU, protocol, correctness check (gate) and recordings."""
