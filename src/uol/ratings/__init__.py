"""Ratings: scales, raters, how far they agree, and images with what a panel said of them."""
