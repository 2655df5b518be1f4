"""What the sources print, beside what was measured here: Tables 1–6 and the systems."""
