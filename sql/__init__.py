"""The SQL of the contract, shipped inside the wheel as `taskq_sync._sql`."""
