"""PAC-Bayesian bounds for GPs and GPs trained by minimising them (Reeb et al. 2018)."""
