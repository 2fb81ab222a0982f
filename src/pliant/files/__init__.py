"""What users hand over and get as files: batches, costs, journals, policies; errors name the file."""
