"""Several outputs: coregionalisation and convolution processes, their likelihoods, and predictions at a pool."""
