"""Ratings: scales, raters, how far they agree, and rated images."""
