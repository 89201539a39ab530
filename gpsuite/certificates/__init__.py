"""Certificates of probability ranges: made from a search, checked by other code."""
