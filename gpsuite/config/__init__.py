"""Words and files in, a validated request out."""
