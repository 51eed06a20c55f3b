"""The comparator with a split first layer against the one on concatenated inputs, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from uol.order.model import Comparator


def naive(comparator: Comparator, images: Tensor, references: Tensor) -> Tensor:
    """Every image beside every reference, concatenated: (T, N, D), (T, R, D) → (N, R, 3)."""
    T, N, D = images.shape
    R = references.shape[1]
    logits = torch.zeros(N, R, 3)
    for t in range(T):
        a = images[t, :, None].expand(N, R, D)
        b = references[t, None].expand(N, R, D)
        hidden = torch.relu(comparator.first(torch.cat([a, b], -1)))
        logits += comparator.third(torch.relu(comparator.second(hidden)))
    return logits / T


def median_seconds(work: Callable[[], Tensor], repeats: int = 5) -> float:
    """Median wall-clock time of `work` after one warm-up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


@torch.inference_mode()
def main() -> None:
    N, R, T, D = 64, 340, 10, 512
    torch.manual_seed(0)
    comparator = Comparator(D, D)
    images, references = torch.randn(T, N, D), torch.randn(T, R, D)
    left, right = comparator.left(references), comparator.right(references)
    difference = (comparator.against(images, left, right) - naive(comparator, images, references)).abs().max()
    slow = median_seconds(lambda: naive(comparator, images, references))
    fast = median_seconds(lambda: comparator.against(images, left, right))
    print(f"comparator, N={N} R={R} T={T} D={D}: concatenated {slow:.2f} s, split {fast:.2f} s, ", end="")
    print(f"ratio {slow / fast:.2f} (target 2.5), largest difference {difference:.1e}")


if __name__ == "__main__":
    main()
