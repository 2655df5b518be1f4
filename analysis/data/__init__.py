"""Reading recordings, published numbers and tables as typed frames."""
