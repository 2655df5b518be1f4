"""The products to compute: shapes, element types, matrices, references, correctness check."""
