"""What the perturbation experiments share: the two kinds of models, bands of members, and coverage's models."""
