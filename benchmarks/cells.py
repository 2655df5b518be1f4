"""The cells that tell what measuring costs: 44 kernels of very different lengths."""

SIZES = [256, 512, 1024, 2048]
# Variant and block sizes, each at all of the orders.
CELLS = {
    "naive": [16, 32],
    "block": [2, 4, 8, 16, 32],
    "block_unroll4": [4, 8, 16, 32],
}
