"""A product by PyTorch, with an option of the module and a check. The tests change the option."""

import torch

torch.backends.cuda.matmul.allow_tf32 = False


def reference(x, y):
    return (x.double() @ y.double()).float()


def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ik,kj->ij", x, y)


def check(x, y):
    torch.testing.assert_close(matmul(x, y), reference(x, y))
    return True


if __name__ == "__main__":
    check(torch.rand(3, 4, device="cuda"), torch.rand(4, 5, device="cuda"))

# expected: correct
