"""What one study asks for: its configuration, products, builds and cells."""
