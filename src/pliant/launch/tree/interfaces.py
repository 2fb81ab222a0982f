"""At which of its addresses a machine is reached."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress

from pliant.launch.tree.posting import Starting
from pliant.model.errors import PliantError

_SIOCGIFADDR = 0x8915
SSH_S = 10.0
"""How long ssh may take to tell its configuration."""


class InterfaceError(PliantError):
    """There is none as it was asked for."""


def addresses() -> dict[str, str]:
    """The IPv4 address of each interface that has one."""
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def listening_at(wanted: str) -> str:
    """The address of this machine that ``wanted`` means: an interface, an address, or a network such as 10.0.0.0/16.
    InterfaceError if it has none."""
    import ipaddress  # seldom needed, and slow to load

    known = addresses()
    if wanted in known:
        return known[wanted]
    try:
        network = ipaddress.IPv4Network(wanted, strict=False)
    except ValueError:
        network = None
    for address in known.values():
        if network is not None and ipaddress.IPv4Address(address) in network:
            return address
    has = ", ".join(f"{name} {address}" for name, address in known.items())
    raise InterfaceError(f"nothing here is {wanted!r}; this machine has {has}")


def controller_at(node: str, interface: str, starting: Starting) -> str:
    """The address at which ``node`` reaches this machine: that of ``interface``, if one is named, and loopback where
    all nodes are on this machine; InterfaceError."""
    if interface:
        return listening_at(interface)
    if starting.by == "fork":
        return "127.0.0.1"
    try:
        return facing(_host(node, starting))
    except InterfaceError as error:
        raise InterfaceError(f"{error}; --interface says where agents are to call this machine") from None


def _host(name: str, starting: Starting) -> str:
    """What OpenSSH's configuration makes of a node's name."""
    if starting.by != "ssh":
        return name
    import subprocess  # at the controller alone, and slow to load

    words = ["ssh", "-G", *starting.options, "--", name]
    with suppress(OSError, subprocess.SubprocessError):  # then ssh will not start an agent, and says why
        text = subprocess.check_output(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, timeout=SSH_S
        )
        for line in text.splitlines():
            if line.startswith("hostname "):
                return line.partition(" ")[2]
    return name


def facing(host: str) -> str:
    """The address by which this machine would speak to ``host``; InterfaceError if there is no way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # nothing is sent
        except OSError as error:
            raise InterfaceError(f"there is no way to {host}: {error}") from error
        return str(probe.getsockname()[0])
