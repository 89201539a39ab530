"""The models as convex objectives with residual gradients (Csáji and Kis 2019)."""
