"""The life of one live job and of one node's agent, as machines: what happens goes in, what is to be done comes out."""
