"""What somebody else adds to gpsuite."""
