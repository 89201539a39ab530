"""Shape of a region: ellipsoids, rays, sampled members, bands and norm balls."""
