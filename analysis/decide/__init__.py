"""Break-even sizes, and predicted times for sizes that were not measured."""
