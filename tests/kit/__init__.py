"""What the tests stand on: a server for the run, a database for each process, and ways to wait without sleeping."""
