"""Charts with matplotlib, which is imported only where one is drawn."""
