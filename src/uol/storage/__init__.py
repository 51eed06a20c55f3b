"""Files: written whole or not at all, tensors, checked JSON, and where a result came from."""
