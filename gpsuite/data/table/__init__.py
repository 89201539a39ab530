"""The user's own table: from a file to a dataset, with every decision reported."""
