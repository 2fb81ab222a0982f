"""What users hand over and get as files: batches, costs, journals; errors name the file and what is wrong in it."""
