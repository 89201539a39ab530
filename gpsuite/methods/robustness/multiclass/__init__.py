"""Several classes: bounds of softmax class probabilities and margins over boxes, and searches with these bounds."""
