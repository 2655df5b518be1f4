"""GPUs and CPUs: how one run is executed and timed."""
