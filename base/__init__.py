"""Shared code of all folders: errors, files, command line, validation, intervals."""
