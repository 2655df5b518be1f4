"""Render the report and its parts."""
