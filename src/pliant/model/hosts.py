"""How a host is named as a node: by a name, a domain name or an address, perhaps with a user and the port of its sshd.

Agents load this module on every node: it needs no other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

LAST_PORT = 65535


class Address(NamedTuple):
    """Where sshd is reached: ``user`` is empty for the usual one, ``port`` is 0 for the usual one."""

    user: str
    host: str
    port: int

    @property
    def login(self) -> str:
        """The destination for ssh."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def node(self) -> str:
        """The one name that a node at this address has."""
        return with_port(self.login, self.host, self.port) if self.port else self.login


def with_port(login: str, host: str, port: int) -> str:
    """``host:port``, or ``[host]:port`` for an IPv6 address, with what ``login`` has before ``host``."""
    before = login.removesuffix(host)
    return f"{before}[{host}]:{port}" if ":" in host else f"{login}:{port}"


def address(text: str) -> Address:
    """What ``host``, ``host:port``, ``[host]:port`` or an IPv6 address means, each perhaps behind ``user@``. What is
    behind a lone colon and no number belongs to the name, as ssh_config may have it. ValueError where it is none of
    these, or no node can be called so."""
    user, _, rest = text.rpartition("@")
    host, port = _bracketed(text, rest) if rest.startswith("[") else _plain(rest)
    if port and not 1 <= int(port) <= LAST_PORT:
        raise ValueError(f"{text!r}: a port is 1 to {LAST_PORT}")
    at = Address(user, host, int(port or 0))
    if not _may_be(at):
        raise ValueError(f"no node is called {text!r}")
    return at


def _may_be(at: Address) -> bool:
    return (
        at.host != ""
        and not at.login.startswith("-")
        and not at.host.startswith(("-", "."))
        and not _is_number(at.host.partition(":")[2])  # that would be its port
        and not (at.host.count(":") == 1 and at.host.endswith(":"))
        and at.node.isprintable()
        and set("/ []").isdisjoint(at.login)
    )


def node_at(text: str) -> str:
    """The name of the node at ``text``, which a user has written; ValueError."""
    at = address(text)
    if at.host.count(":") > 1 and not is_ipv6(at.host):
        raise ValueError(f"{at.host!r} is no IPv6 address; write [host]:port where a port is meant")
    return at.node


def _bracketed(text: str, rest: str) -> tuple[str, str]:
    host, closed, behind = rest[1:].partition("]")
    if not closed or (behind and not (behind[0] == ":" and _is_number(behind[1:]))):
        raise ValueError(f"{text!r} is no host; write [host]:port")
    return host, behind[1:]


def _plain(rest: str) -> tuple[str, str]:
    host, _, port = rest.partition(":")
    return (host, port) if _is_number(port) else (rest, "")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def contact(host: str, port: int) -> str:
    """How an agent is reached, as the messages of the launch tree have it."""
    return with_port(host, host, port)


def apart(contact: str) -> tuple[str, int]:
    """The host and the port of a contact."""
    host, _, port = contact.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def doubles(nodes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of ``nodes`` that may be one host: of one name in letters of either size, or of a name and the same with
    its domain."""
    known: dict[Address, str] = {}
    for node in nodes:
        at = _key(node)
        if at in known:
            yield known[at], node
        known.setdefault(at, node)
    for at, node in known.items():
        for short in _shorter(at.host):
            if (other := at._replace(host=short)) in known:
                yield known[other], node


def excluded(nodes: Iterable[str], names: Iterable[str]) -> tuple[set[str], list[str]]:
    """Those of ``nodes`` that ``names`` mean: by the same name, by one with less or more of its domain, or without the
    user and the port that the node has. And the names that mean none."""
    there = [(node, _key(node)) for node in nodes]
    meant: set[str] = set()
    idle: list[str] = []
    for name in names:
        key = _key(name)
        found = {node for node, at in there if _means(key, at)}
        meant |= found
        idle += [] if found else [name]
    return meant, idle


def _means(name: Address, node: Address) -> bool:
    return (
        (name.host == node.host or name.host in _shorter(node.host) or node.host in _shorter(name.host))
        and name.user in ("", node.user)
        and name.port in (0, node.port)
    )


def _key(node: str) -> Address:
    at = address(node)
    return at._replace(host=_compressed(at.host) if ":" in at.host else at.host.lower())


def _compressed(host: str) -> str:
    from ipaddress import ip_address  # seldom needed, and slow to load

    return ip_address(host).compressed if is_ipv6(host) else host


def is_ipv6(host: str) -> bool:
    """Whether it is an IPv6 address, perhaps with the interface that it is behind."""
    from ipaddress import IPv6Address  # as above

    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _shorter(host: str) -> list[str]:
    """A domain name without the last of its parts, without the last two, and so on; of an address nothing."""
    parts = host.split(".")
    if ":" in host or parts[-1].isdigit():
        return []
    return [".".join(parts[:end]) for end in range(1, len(parts))]
