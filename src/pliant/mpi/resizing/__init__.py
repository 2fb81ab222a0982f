"""Resizes of a job under a scheduler: newcomers are taken in, ranks leave, sleep and wake up."""
