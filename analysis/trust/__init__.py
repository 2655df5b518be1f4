"""How repeatable the numbers are, and what threatens their validity."""
