"""GPU and CPU devices: how single runs are executed and timed."""
