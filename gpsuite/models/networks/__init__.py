"""Feed-forward and convolutional networks as functions of explicit parameters."""
