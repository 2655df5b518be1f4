"""Measurements of the project itself: its timing against other tools', and what measuring costs."""
