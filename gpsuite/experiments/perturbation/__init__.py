"""The perturbation family: exact, finite-sample confidence regions (Csáji and Kis 2019)."""
