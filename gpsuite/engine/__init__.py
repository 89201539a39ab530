"""Running tasks: keys, store, backends, progress, provenance, run folders."""
