"""What every figure shares: one look, its parts, and the SVG that it is written as."""
