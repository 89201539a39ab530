"""Branch and bound over regions: boxes, the tree of cuts, attacks that find good points."""
