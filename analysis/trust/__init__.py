"""How far the numbers can be trusted."""
