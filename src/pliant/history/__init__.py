"""What a run was like: folds over its records, after it or beside it."""
