"""What the pac_bayes experiments share: splits, trainers, one certified fit, and tables of fits."""
