"""Break-even sizes, and predictions for products that were not measured."""
