"""The life of one live job."""
