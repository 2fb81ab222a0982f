"""At which of its addresses a machine is reached."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

from pliant.launch.tree.posting import Starting
from pliant.model.errors import PliantError
from pliant.model.hosts import address

_SIOCGIFADDR = 0x8915
IPV6 = "/proc/net/if_inet6"
"""The IPv6 addresses of this machine: address, number and scope of its interface, and its name."""
LINK_LOCAL = "fe80"
LOOPBACK = ("127.0.0.1", "::1")
LOOKED_AT = 8
"""So many nodes may be unknown here before the launch is given up: looking for each may take seconds."""
SSH_S = 10.0
"""How long ssh may take to tell its configuration."""


class InterfaceError(PliantError):
    """There is none as it was asked for."""


def addresses() -> list[tuple[str, str]]:
    """Each interface with each of its addresses, the IPv4 ones first. What is good on one link alone is left out."""
    found: list[tuple[str, str]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            found.append((name, socket.inet_ntoa(answer[20:24])))
    try:
        with open(IPV6) as lines:  # noqa: PTH123 - pathlib is slow to load
            rows = [line.split() for line in lines]
    except OSError:  # a kernel without it
        rows = []
    found += (
        (row[-1], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])))
        for row in rows
        if not row[0].startswith(LINK_LOCAL)
    )
    return found


def listening_at(wanted: str, near: str = "") -> str:
    """The address of this machine that ``wanted`` means: an interface, an address, or a network such as 10.0.0.0/16 or
    2001:db8::/64. Of an interface with several, the first of the family of ``near``, an address, or else the first.
    InterfaceError if there is none."""
    known = addresses()
    named = [address for name, address in known if name == wanted]
    alike = [address for address in named if (":" in address) == (":" in near)]
    if named:
        return (alike or named)[0]
    import ipaddress  # seldom needed, and slow to load

    with suppress(ValueError):
        network = ipaddress.ip_network(wanted, strict=False)
        for _, address in known:
            if ipaddress.ip_address(address) in network:
                return address
    has = ", ".join(f"{name} {address}" for name, address in known)
    raise InterfaceError(f"nothing here is {wanted!r}; this machine has {has}")


def controller_at(nodes: Sequence[str], interface: str, starting: Starting) -> str:
    """The address at which ``nodes`` reach this machine: that of ``interface``, if one is named, and loopback where all
    nodes are on this machine. It faces the first of them to which there is a way, unless that is this machine itself;
    InterfaceError if there is none."""
    if interface:
        return listening_at(interface)
    if starting.by == "fork":
        return LOOPBACK[0]
    found, first = "", None
    for node in nodes[:LOOKED_AT]:
        try:
            found = facing(*_host(node, starting))
        except InterfaceError as error:
            first = first or error
        if found and found not in LOOPBACK:
            return found
    if found:
        return found
    raise InterfaceError(f"{first}; --interface says where agents are to call this machine")


def _host(node: str, starting: Starting) -> tuple[str, str]:
    """The host that OpenSSH's configuration has for a node's name, and the family of addresses that it asks for."""
    if starting.by != "ssh" or starting.shell:
        return address(node).host, ""
    import subprocess  # at the controller alone, and slow to load

    login, options = starting.login(node)
    words = ["ssh", "-G", *options, "--", login]
    said = {}
    with suppress(OSError, subprocess.SubprocessError):  # then ssh will not start an agent, and says why
        text = subprocess.check_output(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, timeout=SSH_S
        )
        said = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return said.get("hostname", address(node).host), said.get("addressfamily", "")


_FAMILIES = {"inet": (socket.AF_INET,), "inet6": (socket.AF_INET6,)}


def facing(host: str, family: str = "") -> str:
    """The address by which this machine would speak to ``host``, by IPv4 if there is a way; ``family`` is inet or inet6
    if it has to be that. InterfaceError if there is no way."""
    why: OSError | str = ""
    for each in _FAMILIES.get(family, (socket.AF_INET, socket.AF_INET6)):
        with socket.socket(each, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, 9))  # nothing is sent
            except OSError as error:
                why = why or error
                continue
            found = str(probe.getsockname()[0])
        if not found.startswith(LINK_LOCAL):
            return found
        why = f"{found} is of one link alone, and means nothing to other machines"
    raise InterfaceError(f"there is no way to {host}: {why}")
