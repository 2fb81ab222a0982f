"""What the records tell of runs, for people: the facts that terminal, charts and page show."""
