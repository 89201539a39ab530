"""What `gpsuite bench` runs: one module per family, other libraries on the same numbers, and large inputs."""
