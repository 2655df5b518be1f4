"""The study as something to cite and to archive."""
