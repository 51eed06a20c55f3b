"""Training: recipes, batches, the loop, checkpoints and runs."""
