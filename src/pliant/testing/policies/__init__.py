"""What every policy has to keep, and a search for workloads under which one does not."""
