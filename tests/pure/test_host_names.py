"""Hosts as people name them: on the command line, and in hostfiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.model.errors import PliantError
from pliant.model.hostfile import HostSlots, parse_hostfile, placed
from pliant.model.hosts import Address, address, apart, contact, doubles, excluded, node_at
from pliant.model.nodes import hostlist, parse_hostlist

PARTS = st.text("abcnz019", min_size=1, max_size=6)
NAMES = st.builds(".".join, st.lists(PARTS, min_size=1, max_size=3))
IPV6 = st.ip_addresses(v=6).map(str)
USERS = st.just("") | PARTS
PORTS = st.integers(0, 65535)
ADDRESSES = st.builds(Address, USERS, NAMES | IPV6, PORTS)
HOSTS = st.lists(
    st.builds(
        lambda at, slots, more: HostSlots(at.node, slots, more and slots + more - 1),
        ADDRESSES,
        st.integers(1, 9),
        st.integers(0, 3),
    ),
    unique_by=lambda host: host.name,
    max_size=6,
)
IGNORED = st.sampled_from(["", "  ", "# a:3", "\t# nothing"])
ENDS = st.sampled_from(["", " ", "  # c:1 slots=2"])


def bracketed(name: str) -> str:
    """As a hostfile has it: in it ``host:N`` are slots."""
    at = address(name)
    if not at.port:
        return name
    return f"{at.user}@[{at.host}]:{at.port}" if at.user else f"[{at.host}]:{at.port}"


@st.composite
def written(draw: st.DrawFn, host: HostSlots) -> list[str]:
    """The lines of one host, in one of the forms."""
    name, is_plain = bracketed(host.name), ":" not in host.name
    forms = ["slots"] + ["hydra"] * (is_plain and not host.most) + ["slurm"] * (not host.most)
    form = draw(st.sampled_from(forms))
    if form == "slurm":
        return [name] * host.slots
    if form == "hydra":
        return [f"{name}:{host.slots}"]
    equals = draw(st.sampled_from(["=", " = ", "= "]))
    most = f" {draw(st.sampled_from(['max_slots', 'max-slots']))}{equals}{host.most}" if host.most else ""
    said = f"slots{equals}{host.slots}" if host.slots > 1 or draw(st.booleans()) else ""
    return [f"{name} {said}{most}"]


@given(HOSTS, st.data())
def test_what_is_written_in_a_hostfile_is_read(hosts: list[HostSlots], data: st.DataObject) -> None:
    lines = [line for host in hosts for line in data.draw(written(host))]
    shown = [text for line in lines for text in (data.draw(IGNORED), line + data.draw(ENDS))]
    assert parse_hostfile("\n".join(shown), "file") == tuple(hosts)


def test_the_forms_of_a_hostfile() -> None:
    text = """# of hydra, Open MPI and Slurm
    node1:4
    node2 slots=4 max_slots=8
    me@node3
    node3   # another user
    node3
    rack[1-2]n[01-02]:2
    [node4]:2222 slots = 3
    [2001:db8::1]:22
    2001:db8::2 slots=2
    """
    assert parse_hostfile(text, "file") == (
        HostSlots("node1", 4), HostSlots("node2", 4, 8), HostSlots("me@node3"), HostSlots("node3", 2),
        *(HostSlots(f"rack{rack}n{node}", 2) for rack in (1, 2) for node in ("01", "02")),
        HostSlots("node4:2222", 3), HostSlots("[2001:db8::1]:22"), HostSlots("2001:db8::2", 2),
    )  # fmt: skip
    assert parse_hostfile("a slots=2 max_slots=3\na slots=2 max_slots=4\n", "file") == (HostSlots("a", 4, 7),)
    assert parse_hostfile("a slots=2 max_slots=3\na\n", "file") == (HostSlots("a", 3),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a:b", r"'a:b': slots are a number from 1; write host:4 or host slots=4, and \[host\]:port for a port"),
        ("a slots=0", "'slots=0': slots are a number from 1"),
        ("a slots", "'slots': slots are a number from 1"),
        ("a 4", "'4' is not known here; write: host slots=4 max_slots=8"),
        ("a:4 slots=4", "'slots=4' is said twice; say it once"),
        ("a slots=4 max_slots=2", "max_slots is less than slots; raise max_slots, or leave it out"),
        ("a:22:4", r"'a:22:4' is no IPv6 address; write \[host\]:port where a port is meant"),
        ("[a]:0", r"'\[a\]:0': a port is 1 to 65535"),
        ("[a]:b", r"'\[a\]:b' is no host; write \[host\]:port"),
        ("a[1-", "a bracket has no other end"),
        ("-oProxyCommand=x", "'-oProxyCommand=x' is not known|no node is called '-oProxyCommand=x'"),
        ("a[1-70000]", "a hostlist stands for at most 65,536 nodes"),
    ],
)  # fmt: skip
def test_an_error_in_a_hostfile_names_file_line_and_remedy(line: str, said: str) -> None:
    with pytest.raises(PliantError, match=f"^my.hosts, line 3: .*({said})"):
        parse_hostfile(f"first\n\n{line}\nlast\n", "my.hosts")


def test_a_hostfile_names_so_many_hosts() -> None:
    with pytest.raises(PliantError, match=r"^f, line 2: a hostfile names at most 65,536 hosts"):
        parse_hostfile("a[1-65536]\nb\n", "f")


@given(st.integers(1, 60), HOSTS.filter(bool))
def test_processes_are_placed_by_slots(processes: int, hosts: list[HostSlots]) -> None:
    if all(host.most for host in hosts) and processes > sum(host.most for host in hosts):
        with pytest.raises(ValueError, match="is the most by max_slots; start fewer, or raise max_slots"):
            placed(processes, hosts)
        return
    sizes = placed(processes, hosts)
    assert sum(sizes) == processes
    slots = [host.slots for host in hosts]
    if processes <= sum(slots):  # the first hosts are full, then one has the rest
        filled = [min(slot, max(0, processes - sum(slots[:at]))) for at, slot in enumerate(slots)]
        assert list(sizes) == filled
    else:
        assert all(
            size >= slot and (not host.most or size <= host.most)
            for size, slot, host in zip(sizes, slots, hosts, strict=True)
        )


def test_known_placements() -> None:
    two = [HostSlots("a", 2, 3), HostSlots("b", 1)]
    assert [placed(number, two) for number in (1, 2, 3, 4, 6, 9)] == [
        (1, 0), (2, 0), (2, 1), (3, 1), (3, 3), (3, 6),
    ]  # fmt: skip
    assert placed(5, [HostSlots("a"), HostSlots("b")]) == (3, 2), "as equal as can be"


@given(ADDRESSES)
def test_an_address_has_one_name(at: Address) -> None:
    assert address(at.node) == at
    assert node_at(at.node) == at.node
    assert parse_hostlist(at.node) == [at.node]
    if at.port:
        assert apart(contact(at.host, at.port)) == (at.host, at.port)


@given(st.lists(st.builds(Address, st.just(""), IPV6, st.integers(1, 99)).map(lambda at: at.node)))
def test_hosts_with_ports_can_be_listed(names: list[str]) -> None:
    assert sorted(set(parse_hostlist(hostlist(names)))) == sorted(set(names))


def test_how_addresses_are_written() -> None:
    assert address("me@node1:2222") == Address("me", "node1", 2222)
    assert address("[::1]") == Address("", "::1", 0)
    assert address("me@[fe80::1%eth0]:22") == Address("me", "fe80::1%eth0", 22)
    assert address("rack:left") == Address("", "rack:left", 0), "only ssh_config knows"
    assert parse_hostlist("n[1-2]:22,[::1]:[22-23],2001:db8::[1-2]") == [
        "n1:22", "n2:22", "[::1]:22", "[::1]:23", "2001:db8::1", "2001:db8::2",
    ]  # fmt: skip
    for wrong in ("", "a:", "[a:5]", "-o", "me@-o", ".a", "a/b", "[]:3", "a b", "v\udcff", "[a", "[a]b"):
        with pytest.raises(ValueError, match=r"no node is called|is no host"):
            address(wrong)
    with pytest.raises(ValueError, match="'a:65536': a port is 1 to 65535"):
        address("a:65536")


def test_names_that_may_be_one_host() -> None:
    assert list(doubles(["node1", "node2.b.org", "Node1", "node1.b.org"])) == [
        ("node1", "Node1"), ("node1", "node1.b.org"),
    ]  # fmt: skip
    assert list(doubles(["x.rack", "x.rack.b.org"])) == [("x.rack", "x.rack.b.org")]
    assert list(doubles(["::1", "0:0::1"])) == [("::1", "0:0::1")]
    assert not list(
        doubles(["node1.a.org", "node1.b.org", "node1:1", "node1:2", "me@node1", "10.0", "10.0.0.1"])
    )


def test_names_that_are_excluded() -> None:
    nodes = ["a", "b.x.org", "me@c:22", "c:23", "[::1]:22", "B1"]
    assert excluded(nodes, ["a.x.org", "b", "c:22", "b1"]) == ({"a", "b.x.org", "me@c:22", "B1"}, [])
    assert excluded(nodes, ["c", "0::1", "b.y", "me@a"]) == ({"me@c:22", "c:23", "[::1]:22"}, ["b.y", "me@a"])
