"""One module per command of the command line: `main(words) -> exit code` and `HELP`."""
