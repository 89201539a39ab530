"""Benchmarks of `gpsuite bench`: one module per family, other libraries on the same numbers, and large inputs."""
