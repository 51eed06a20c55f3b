"""`uol serve`: a page and an HTTP API that score images on this machine and store nothing."""
