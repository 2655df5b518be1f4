"""The catalog: every GPU variant, its launch geometry and its limits."""
