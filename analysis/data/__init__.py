"""Recordings, published numbers and tables as typed frames."""
