"""Recordings and published tables as typed frames."""
