"""`python -m gpsuite`: the command where its script is not on the path."""

from gpsuite.cli import entry

if __name__ == "__main__":
    raise SystemExit(entry())
