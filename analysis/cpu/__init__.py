"""The CPU of a host: its versions, their steps, and what bounds them."""
