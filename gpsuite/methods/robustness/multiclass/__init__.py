"""Several classes: bounds of softmax class probabilities and of margins over boxes, and searches with them."""
