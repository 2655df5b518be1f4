"""What is multiplied: shapes, element types, matrices, references and the correctness gate."""
