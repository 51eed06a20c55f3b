"""Scoring: models on disk, and their scores, comparisons and rankings of images."""
