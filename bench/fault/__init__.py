"""One fault a file: what is done to a service of real processes while jobs come in."""
