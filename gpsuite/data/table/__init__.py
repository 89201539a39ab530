"""The user's own table: from a file as people have it to a dataset, with every decision said."""
