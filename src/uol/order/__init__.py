"""The mathematics of order learning: pairs, Gaussians, losses, the network, and scores from comparisons."""
