"""The calls of a PlaceExecutor: which of them is made where and when, and what makes them."""
