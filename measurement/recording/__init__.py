"""Recordings on disk: format, schema, consistency, journal, and the gallery of recordings."""
