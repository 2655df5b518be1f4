"""GPU and CPU devices: execution and timing of single runs."""
