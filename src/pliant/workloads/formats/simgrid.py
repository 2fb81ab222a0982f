"""The speeds of a machine, as one number each: from a SimGrid platform (XML, https://simgrid.org), as ElastiSim has it.

Of a platform these are read: ``<cluster>``s, hosts of their own, the hosts with the property ``pfs_host`` and the links
of the routes between their zone and the others (``zoneRoute``), and ElastiSim's properties of hosts. What else it has
is not, and named: shapes of networks, hosts that differ, profiles of availability.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from pliant.model.errors import TraceError
from pliant.model.keys import cut
from pliant.model.limits import DIGITS, whole
from pliant.workloads.unmapped import Unmapped

WINDOW_BYTES = 4194304.0
"""SimGrid's ``network/TCP-gamma``: no flow is faster than this divided by twice the latency of its route."""
SCALES = {
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
SECONDS = {
    "": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12,
    "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0,
}  # fmt: skip
PROFILES = ("availability_file", "speed_file", "state_file", "bandwidth_file", "latency_file")


class Route(NamedTuple):
    """What a way through the network allows: bytes each second, after ``latency_s`` seconds."""

    bytes_s: float
    latency_s: float = 0.0


class Storage(NamedTuple):
    """The parallel file system: the ways from and to it, and the number of its hosts."""

    read: Route | None = None
    write: Route | None = None
    hosts: int = 1


class Platform(NamedTuple):
    """A machine whose nodes are alike; None is what is not known. Speeds are of one node, or one GPU, alone.

    ``link`` is between a node and the network, which itself holds nothing up; in each direction at once
    (``duplex``) or in both together. ``backbone`` is what all traffic of a cluster shares. ``buffer`` is a node's own
    burst buffer: bytes a second read, and written. ``unmapped`` is what is not simulated of it.
    """

    nodes: int = 0
    node_flops: float | None = None
    link: Route | None = None
    duplex: bool = True
    backbone: Route | None = None
    storage: Storage = Storage()
    gpus: int = 0
    gpu_flops: float | None = None
    gpu_link: float | None = None
    buffer: tuple[float, float] | None = None
    unmapped: tuple[Unmapped, ...] = ()


class Speeds(NamedTuple):
    """What a user says of the machine: its ``platform``'s file, and in place of what that has FLOP/s of a node, and
    bytes a second of the file system and of a node's link."""

    platform: str = ""
    node_flops: float | None = None
    pfs_read: float | None = None
    pfs_write: float | None = None
    link: float | None = None

    def of(self, platform: Platform) -> Platform:
        """The platform, with these in place of its own."""
        storage = platform.storage
        read = _faster(storage.read, self.pfs_read)
        write = _faster(storage.write, self.pfs_write)
        return platform._replace(
            node_flops=self.node_flops or platform.node_flops,
            link=_faster(platform.link, self.link),
            storage=storage._replace(read=read, write=write),
        )


def _faster(route: Route | None, bytes_s: float | None) -> Route | None:
    if bytes_s is None:
        return route
    return Route(bytes_s, route.latency_s if route is not None else 0.0)


def read_platform(path: Path) -> Platform:
    """The platform in the file ``path``. TraceError names the file and what is wrong with it."""
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 -- expat limits what entities may grow to
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ET.ParseError as error:
        raise TraceError(f"{path}: is no XML: {error}") from None
    except (LookupError, ValueError) as error:  # of the encoding that it names
        raise TraceError(f"{path}: cannot be read: {error}; write it in UTF-8") from None
    if root.tag != "platform":
        raise TraceError(f"{path}: is no platform of SimGrid, but <{root.tag}>")
    try:
        return _Reader(root).platform()
    except ValueError as error:
        raise TraceError(f"{path}: {error}") from None
    except RecursionError:
        raise TraceError(f"{path}: its zones are nested too deeply") from None


def _number(text: str, units: Mapping[str, float], what: str) -> float:
    """``100Gf`` and the like; a number without unit counts as it is. ValueError."""
    found = re.fullmatch(r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2] not in units:
        raise ValueError(f"{what}: {cut(text)!r} is not understood")
    number, unit = float(found[1]), units[found[2]]
    return number * unit if unit >= 1.0 else number / round(1.0 / unit)  # 50us is to be what 5e-05 is


SPEEDS = {f"{scale}f": factor for scale, factor in SCALES.items()} | {"": 1.0}
BANDWIDTHS = (
    {f"{scale}Bps": factor for scale, factor in SCALES.items()}
    | {f"{scale}bps": factor / 8 for scale, factor in SCALES.items()}
    | {"": 1.0}
)


def _speed(text: str, what: str) -> float:
    return _number(text.split(",", maxsplit=1)[0], SPEEDS, what)


def _bandwidth(text: str, what: str) -> float:
    if not (bytes_s := _number(text, BANDWIDTHS, what)):
        raise ValueError(f"{what}: {text!r} is nothing; it must be above 0")
    return bytes_s


def _seconds(text: str, what: str) -> float:
    return _number(text, SECONDS, what)


class _Hosts(NamedTuple):
    """Hosts that are alike, by what they say of themselves."""

    name: str
    number: int
    zone: str
    element: ET.Element
    properties: Mapping[str, str]

    def has(self, name: str) -> bool:
        return self.properties.get(name) == "true"


class _Reader:
    def __init__(self, root: ET.Element) -> None:
        self.unmapped: list[Unmapped] = []
        self.links = {
            each.get("id", ""): Route(
                _bandwidth(each.get("bandwidth", ""), f"link {each.get('id')}: bandwidth"),
                _seconds(each.get("latency", "0"), f"link {each.get('id')}: latency"),
            )
            for each in root.iter("link")
        }
        self.hosts = list(self._find(root, ""))
        self.routes = [each for tag in ("zoneRoute", "ASroute") for each in root.iter(tag)]
        if any(each.get(key) for each in root.iter() for key in PROFILES):
            self._miss("profiles of availability or speed", "hosts and links are always there, at full speed")

    def _miss(self, what: str, instead: str) -> None:
        row = Unmapped(f"platform: {what}", instead)
        if row not in self.unmapped:
            self.unmapped.append(row)

    def _find(self, element: ET.Element, zone: str) -> Iterator[_Hosts]:
        for child in element:
            name = child.get("id", "")
            if child.tag in ("zone", "AS"):
                yield from self._find(child, name)
            elif child.tag in ("host", "cluster"):
                properties = {p.get("id", ""): p.get("value", "") for p in child.iter("prop")}
                if child.tag == "host":
                    yield _Hosts(name, 1, zone, child, properties)
                else:
                    count = _count(child.get("radical", ""), f"cluster {name}: radical")
                    yield _Hosts(name, count, name, child, properties)

    def platform(self) -> Platform:
        storage = [hosts for hosts in self.hosts if hosts.has("pfs_host")]
        nodes = [hosts for hosts in self.hosts if not hosts.has("pfs_host") and not hosts.has("batch_system")]
        if not nodes:
            raise ValueError("there are no hosts that compute")
        like = max(nodes, key=lambda hosts: hosts.number)
        if len({_described(hosts) for hosts in nodes}) > 1:
            self._miss("hosts that differ", f"all are as those of {like.name}, of which there are most")
        self._look_over(like, {hosts.name for hosts in storage})
        gpus, flops, gpu_link = (
            like.properties.get(key, "") for key in ("num_gpus", "flops_per_gpu", "gpu_to_gpu_bw")
        )
        return Platform(
            nodes=sum(hosts.number for hosts in nodes),
            node_flops=_speed(like.element.get("speed", ""), f"{like.name}: speed") or None,
            link=_link(like, "bw", "lat"),
            duplex=like.element.get("sharing_policy", "SPLITDUPLEX") != "SHARED",
            backbone=_link(like, "bb_bw", "bb_lat"),
            storage=Storage(
                self._way(storage, reads=True),
                self._way(storage, reads=False),
                sum(hosts.number for hosts in storage)
                or 1,  # users may say how quick one is that is not there
            ),
            gpus=whole(gpus) or 0,
            gpu_flops=(_speed(flops, f"{like.name}: flops_per_gpu") or None) if flops else None,
            gpu_link=_bandwidth(gpu_link, f"{like.name}: gpu_to_gpu_bw") if gpu_link else None,
            buffer=_buffer(like),
            unmapped=tuple(self.unmapped),
        )

    def _look_over(self, like: _Hosts, storage: set[str]) -> None:
        """Say what of the nodes is not looked at."""
        element, properties = like.element, like.properties
        if element.tag == "host":
            self._miss(
                "links of hosts that are in no cluster", "they hold nothing up, if --link does not say"
            )
        elif (topology := element.get("topology", "FLAT")) != "FLAT":
            self._miss(f"the topology {topology}", "nothing but the links of the nodes holds traffic up")
        if like.has("wide_striping"):
            self._miss("wide_striping", "each node has its own burst buffer")
        targets = {
            part.strip() for part in re.split("[;,]", properties.get("pfs_targets", "")) if part.strip()
        }
        if targets and storage and targets != storage:
            self._miss("pfs_targets", "nodes read from and write to all hosts of the file system")

    def _way(self, storage: list[_Hosts], *, reads: bool) -> Route | None:
        """What the routes between the hosts of the file system and the nodes allow. Data are striped evenly over these
        hosts, so the zone that is slowest for its share sets the pace."""
        hosts = sum(each.number for each in storage)
        zones: dict[str, int] = {}
        for each in storage:
            zones[each.zone] = zones.get(each.zone, 0) + each.number
        ways: list[Route] = []
        for zone, count in zones.items():
            links = [self._links(route) for route in self.routes if _leads(route, zone, reads=reads)]
            if not links:
                return None
            slowest = min((link for way in links for link in way), default=None)
            if slowest is not None:
                latency_s = max(sum(link.latency_s for link in way) for way in links)
                ways.append(Route(slowest.bytes_s * hosts / count, latency_s))
        if not ways:
            return None
        return Route(min(way.bytes_s for way in ways), max(way.latency_s for way in ways))

    def _links(self, route: ET.Element) -> list[Route]:
        names = [each.get("id", "") for each in route.iter("link_ctn")]
        if missing := [name for name in names if name not in self.links]:
            raise ValueError(
                f"the route to {route.get('dst')} names the link {missing[0]}, which is not there"
            )
        return [self.links[name] for name in names]


def _leads(route: ET.Element, zone: str, *, reads: bool) -> bool:
    """Whether data come from that zone this way, or go to it."""
    ends = [route.get("src"), route.get("dst")]
    if route.get("symmetrical", "YES").upper() != "NO":
        return zone in ends
    return ends[0 if reads else 1] == zone


def _link(hosts: _Hosts, bandwidth: str, latency: str) -> Route | None:
    if not (text := hosts.element.get(bandwidth)):
        return None
    return Route(
        _bandwidth(text, f"{hosts.name}: {bandwidth}"),
        _seconds(hosts.element.get(latency, "0"), f"{hosts.name}: {latency}"),
    )


def _buffer(hosts: _Hosts) -> tuple[float, float] | None:
    """A node's own burst buffer: bytes a second read, and written."""
    if not hosts.has("node_local_bb"):
        return None
    ways = ("bb_read_bw", "bb_write_bw")
    read, write = (_bandwidth(hosts.properties.get(way, ""), f"{hosts.name}: {way}") for way in ways)
    return read, write


def _described(hosts: _Hosts) -> tuple[object, ...]:
    """What matters of hosts, to see whether others are alike."""
    keys = ("speed", "bw", "lat", "bb_bw", "sharing_policy", "topology")
    return (*(hosts.element.get(key) for key in keys), *sorted(hosts.properties.items()))


def _count(radical: str, where: str) -> int:
    """How many numbers ``0-3,7`` has. ValueError."""
    count = 0
    for part in radical.split(","):
        found = re.fullmatch(rf"\s*(\d{{1,{DIGITS}}})(?:-(\d{{1,{DIGITS}}}))?\s*", part)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"{where}: {cut(radical)!r} is not understood")
        count += int(found[2] or found[1]) - int(found[1]) + 1
    return count
