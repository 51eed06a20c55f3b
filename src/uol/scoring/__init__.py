"""Scoring: models on disk, asked for scores, comparisons and rankings of images."""
