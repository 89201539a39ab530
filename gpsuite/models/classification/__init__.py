"""Binary classification: links, Laplace, expectation propagation, variational and HMC posteriors, training, storage."""
