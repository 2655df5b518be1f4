"""Recordings on disk: format, schema, consistency, journal and gallery."""
