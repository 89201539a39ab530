"""What `import gpsuite` offers, for models and arrays of one's own. `gpsuite.api` says which name is where."""
