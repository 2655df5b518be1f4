"""The catalog: every variant, its launch geometry and its limits."""
