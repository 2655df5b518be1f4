"""One study: its configuration, its products, the builds that it needs, and its cells."""
