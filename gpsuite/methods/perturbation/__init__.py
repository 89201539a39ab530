"""Distribution-free confidence regions for kernel methods by gradient perturbation (Csáji and Kis 2019)."""
