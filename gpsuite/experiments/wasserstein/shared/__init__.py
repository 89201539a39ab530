"""What the wasserstein experiments share: fits of every method, and the settings of their training."""
