"""Where nodes come from. A provider starts an agent on each of its nodes and carries messages to them."""
