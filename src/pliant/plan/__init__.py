"""Plans as data: they are executed, predicted and drawn by others. Pure."""
