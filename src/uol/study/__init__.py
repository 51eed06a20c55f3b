"""`uol study`: collect people's ratings and votes, and turn them into a scale with intervals."""
