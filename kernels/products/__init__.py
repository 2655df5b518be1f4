"""Shapes, element types, matrices, reference products and the correctness gate."""
