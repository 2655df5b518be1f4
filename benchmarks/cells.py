"""The 44 cells of the measuring cost: kernels of very different lengths."""

SIZES = [256, 512, 1024, 2048]
# Variant: block sizes; each at all sizes.
CELLS = {
    "naive": [16, 32],
    "block": [2, 4, 8, 16, 32],
    "block_unroll4": [4, 8, 16, 32],
}
