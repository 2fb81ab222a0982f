"""What is simulated: jobs and nodes from traces, batches, journals and generators."""
