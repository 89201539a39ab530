"""Risk certificates, and their check by other code."""
