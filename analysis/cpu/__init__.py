"""The CPU of a host: its variants, their ladder and their roofline."""
