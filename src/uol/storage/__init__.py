"""Files: written whole or not at all, tensors, validated JSON, and where a result came from."""
