"""What people see in a terminal: progress, tables, what went wrong."""
