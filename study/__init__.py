"""One study: its configuration, products, builds and cells."""
