"""From which matrix size on a GPU pays."""
