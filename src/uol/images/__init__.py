"""Images: from a file to the pixels that a network sees, with the face found and aligned on the way."""
