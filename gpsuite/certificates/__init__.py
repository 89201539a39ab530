"""Certificates of ranges and risks: made from a search or a training, checked by other code."""
