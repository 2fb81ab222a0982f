"""What carries messages between places, and runs their threads."""
