"""The answers, the published tables beside ours, and the GPUs compared."""
