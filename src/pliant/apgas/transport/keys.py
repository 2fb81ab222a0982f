"""What the places of one program have in common and nobody else knows: the keys of its sockets."""

from __future__ import annotations

import msgspec
import zmq


class Keys(msgspec.Struct, frozen=True):
    """CURVE keys, made for one program: what places accept connections with, and what they connect with."""

    server_public: str
    server_secret: str
    client_public: str
    client_secret: str

    @classmethod
    def make(cls) -> Keys:
        server, client = zmq.curve_keypair(), zmq.curve_keypair()
        return cls(*(part.decode("ascii") for pair in (server, client) for part in pair))


class Contact(msgspec.Struct, frozen=True):
    """What a new place has to know: the keys, and where place 0 is reached."""

    keys: Keys
    address: str

    def text(self) -> str:
        return msgspec.json.encode(self).decode("ascii")

    @classmethod
    def read(cls, text: str) -> Contact:
        """msgspec.DecodeError (a ValueError) if it is none."""
        return msgspec.json.decode(text, type=cls)
