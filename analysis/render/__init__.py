"""Rendering the report and its parts."""
