"""Repeatability of the numbers, and threats to their validity."""
