"""Nobody later than under rigid EASY: docs/entitled.md has the theorem."""
