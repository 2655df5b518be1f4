"""The audit of the published numbers."""
