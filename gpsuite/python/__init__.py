"""Functions of `import gpsuite`, for models and arrays of the user. `gpsuite.api` maps names to modules."""
