"""libpmix by ctypes: the structures and calls of a PMIx server (PMIx Standard 4.1, chapters 3, 16 and 17).

Open MPI brings the library. It has no types of its own here but C's: what comes in is copied to Python before the call
is over, and what goes out is kept until the library has read it.
"""

from __future__ import annotations

import ctypes as c
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

OK, DONE, NOT_FOUND, NOT_SUPPORTED, BAD_PARAM = 0, -157, -46, -47, -27
"""Status codes; DONE says that a call is over and nobody will be called back."""
BOOL, STRING, U16, U32, INFO, BYTES, ARRAY, RANK = 1, 3, 13, 14, 24, 27, 39, 40
EVERYBODY = 0xFFFFFFFE
"""As a rank: all ranks of a namespace."""
CALL_S = 10.0
"""How long the library may take for a call of ours."""
ANSWERS = 256
"""How many answers are kept: the library reads an answer soon, and does not say when."""
NAME = "libpmix.so.2"


class PmixError(Exception):
    """libpmix cannot be found, or has refused something."""


class Proc(c.Structure):
    _fields_ = (("nspace", c.c_char * 256), ("rank", c.c_uint32))


class _Bytes(c.Structure):
    _fields_ = (("bytes", c.c_void_p), ("size", c.c_size_t))


class _Data(c.Union):
    _fields_ = (
        ("text", c.c_char_p), ("octet", c.c_uint8), ("bytes", _Bytes),
        ("flag", c.c_bool), ("u16", c.c_uint16), ("u32", c.c_uint32),
        ("pointer", c.c_void_p), ("room", c.c_char * 24),
    )  # fmt: skip


class _Value(c.Structure):
    _fields_ = (("type", c.c_uint16), ("data", _Data))


class Info(c.Structure):
    _fields_ = (("key", c.c_char * 512), ("flags", c.c_uint32), ("value", _Value))


class Found(c.Structure):
    _fields_ = (("proc", Proc), ("key", c.c_char * 512), ("value", _Value))


class _Array(c.Structure):
    _fields_ = (("type", c.c_uint16), ("size", c.c_size_t), ("array", c.c_void_p))


_P, _V, _I, _N = c.POINTER, c.c_void_p, c.c_int, c.c_size_t
_PROCS, _INFOS, _KEYS = _P(Proc), _P(Info), _P(c.c_char_p)
OVER = c.CFUNCTYPE(None, _I, _V)
MODEX = c.CFUNCTYPE(None, _I, _V, _N, _V, _V, _V)
FOUND = c.CFUNCTYPE(None, _I, _V, _N, _V)
PUT = c.CFUNCTYPE(None, _I, _V, _N, _V)
_CALLS = (
    ("connected", c.CFUNCTYPE(_I, _PROCS, _V, _V, _V)),
    ("finalized", c.CFUNCTYPE(_I, _PROCS, _V, _V, _V)),
    ("abort", c.CFUNCTYPE(_I, _PROCS, _V, _I, c.c_char_p, _PROCS, _N, _V, _V)),
    ("fence", c.CFUNCTYPE(_I, _PROCS, _N, _INFOS, _N, _V, _N, _V, _V)),
    ("modex", c.CFUNCTYPE(_I, _PROCS, _INFOS, _N, _V, _V)),
    ("publish", c.CFUNCTYPE(_I, _PROCS, _INFOS, _N, _V, _V)),
    ("lookup", c.CFUNCTYPE(_I, _PROCS, _KEYS, _INFOS, _N, _V, _V)),
    ("unpublish", c.CFUNCTYPE(_I, _PROCS, _KEYS, _INFOS, _N, _V, _V)),
    ("spawn", c.CFUNCTYPE(_I, _PROCS, _V, _N, _V, _N, _V, _V)),
    ("connect", c.CFUNCTYPE(_I, _PROCS, _N, _INFOS, _N, _V, _V)),
    ("disconnect", c.CFUNCTYPE(_I, _PROCS, _N, _INFOS, _N, _V, _V)),
    ("register_events", c.CFUNCTYPE(_I, _V, _N, _V, _N, _V, _V)),
    ("deregister_events", c.CFUNCTYPE(_I, _V, _N, _V, _V)),
)
"""pmix_server_module_t, in its order; what follows there is left out, which PMIx takes for not supported."""
SLOTS = 40

Member = tuple[str, int]
"""A namespace and a rank in it."""
Pair = tuple[str, int, Any]
"""The key, type and value of an info."""
Upcalls = dict[str, Callable[..., int]]


class Space(NamedTuple):
    """A namespace: ``sizes`` ranks on its nodes."""

    name: str
    sizes: tuple[int, ...]

    @property
    def nodes(self) -> list[str]:
        """A name for each node that no other namespace's has. Ranks of two groups talk as if over a network, also
        where their nodes are one machine."""
        return [f"{self.name}.{part}" for part in range(len(self.sizes))]

    def ranks(self, part: int) -> range:
        first = sum(self.sizes[:part])
        return range(first, first + self.sizes[part])


class Place(NamedTuple):
    """Where a libpmix is, and the directory that it was installed in, if that can be seen."""

    library: str
    prefix: str


def find(environ: dict[str, str]) -> Place:
    """The libpmix that ranks with this environment will load: as they are told, or beside their libmpi, or in their
    paths; else wherever the loader looks."""
    if told := environ.get("PLIANT_LIBPMIX"):
        return Place(told, _prefix(Path(told)))
    folders = [Path(environ["PLIANT_LIBMPI"]).parent] if environ.get("PLIANT_LIBMPI") else []
    folders += [Path(each) for each in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if each]
    folders += [Path(each).parent / "lib" for each in environ.get("PATH", "").split(os.pathsep) if each]
    for folder in folders:
        for path in (folder / NAME, folder / "openmpi" / NAME, folder / "pmix2" / "lib" / NAME):
            if path.exists():
                return Place(str(path), _prefix(path))
    return Place(NAME, "")


def _prefix(library: Path) -> str:
    """A wheel is not where it was built: its libraries are told where they are."""
    return next((str(each) for each in library.parents if (each / "share" / "pmix").is_dir()), "")


def infos(pairs: Sequence[Pair]) -> tuple[Any, list[Any]]:
    """An array of infos, and what has to live as long as it."""
    array = (Info * len(pairs))()
    kept: list[Any] = []
    for slot, (key, kind, value) in zip(array, pairs, strict=True):
        slot.key = key.encode()
        slot.value.type = kind
        data = slot.value.data
        if kind == BOOL:
            data.flag = value
        elif kind == U16:
            data.u16 = value
        elif kind in {U32, RANK}:
            data.u32 = value
        elif kind == ARRAY:
            inner, more = infos(value)
            holder = _Array(INFO, len(inner), c.addressof(inner))
            kept += [inner, more, holder]
            data.pointer = c.addressof(holder)
        else:
            kept.append(_fill(data, kind, value if isinstance(value, bytes) else value.encode()))
    return array, kept


def _fill(data: Any, kind: int, value: bytes) -> Any:
    """Have these data be a string or bytes; the buffer, which has to live as long."""
    buffer = c.create_string_buffer(value)
    if kind == BYTES:
        data.bytes.bytes, data.bytes.size = c.addressof(buffer), len(value)
    else:
        data.pointer = c.addressof(buffer)
    return buffer


def content(data: Any, size: int) -> bytes:
    """A copy of this memory."""
    return c.string_at(data, size) if size else b""


def members(procs: Any, count: int) -> list[Member]:
    return [(procs[i].nspace.decode(), procs[i].rank) for i in range(count)]


def entries(array: Any, count: int) -> dict[str, tuple[int, bytes]]:
    """Of infos: their types, and what they are if that is a string, bytes or a small number."""
    found: dict[str, tuple[int, bytes]] = {}
    for info in array[:count] if count else ():
        kind, data = info.value.type, info.value.data
        if kind == STRING:
            value = data.text or b""
        elif kind == BYTES:
            value = content(data.bytes.bytes, data.bytes.size)
        else:
            value = bytes([data.octet])
        found[info.key.decode()] = kind, value
    return found


def keys_of(keys: Any) -> list[str]:
    found: list[str] = []
    while keys[len(found)]:
        found.append(keys[len(found)].decode())
    return found


class Library:
    """A libpmix that is a server in this process. ``upcalls`` are called in a thread of its own."""

    def __init__(self, path: str, folder: str, host: str, upcalls: Upcalls) -> None:
        try:
            self._lib = c.CDLL(path, c.RTLD_GLOBAL)
        except OSError as error:
            raise PmixError(
                f"Open MPI's libpmix cannot be loaded; PLIANT_LIBPMIX may say where it is: {error}"
            ) from None
        self._calls = [kind(upcalls[name]) if kind and name in upcalls else None for name, kind in _CALLS]
        table = [c.cast(call, _V) if call else None for call in self._calls]
        self._module = (_V * SLOTS)(*table)
        self._kept: deque[Any] = deque(maxlen=ANSWERS)
        self._wanted: dict[int, Any] = {}
        settings, _ = infos([
            ("pmix.srv.nspace", STRING, f"server.{host}"),
            ("pmix.srv.rank", RANK, 0),
            ("pmix.srvr.tmpdir", STRING, folder),
            ("pmix.sys.tmpdir", STRING, folder),
            ("pmix.hname", STRING, host),
            ("pmix.srvr.tool", BOOL, False),
        ])  # fmt: skip
        self._check(self._lib.PMIx_server_init(self._module, settings, _N(len(settings))), "PMIx_server_init")

    def _check(self, status: int, call: str) -> None:
        if status not in {OK, DONE}:
            raise PmixError(f"{call} says {status}")

    def _wait(self, name: str, *arguments: Any) -> None:
        """Call, and wait until that is over."""
        over = threading.Event()
        told: list[int] = []

        def tell(status: int, _: Any) -> None:
            told.append(status)
            over.set()

        back = OVER(tell)
        status = getattr(self._lib, name)(*arguments, back, None)
        if status == OK:
            if not over.wait(CALL_S):
                raise PmixError(f"{name} is not over within {CALL_S:g} s")
            status = told[0]
        self._check(status, name)

    def register(self, space: Space, part: int | None, folder: str) -> None:
        """Make a namespace known, of which ``part`` is here, or none; ``folder`` is for what its ranks put down."""
        nodes, ranks = c.c_char_p(), c.c_char_p()
        here = space.ranks(part) if part is not None else range(0)
        places = ";".join(",".join(map(str, space.ranks(each))) for each in range(len(space.sizes)))
        self._check(
            self._lib.PMIx_generate_regex(",".join(space.nodes).encode(), c.byref(nodes)),
            "PMIx_generate_regex",
        )
        self._check(self._lib.PMIx_generate_ppn(places.encode(), c.byref(ranks)), "PMIx_generate_ppn")
        size = sum(space.sizes)
        pairs: list[Pair] = [
            ("pmix.jobid", STRING, space.name),
            ("pmix.nmap", STRING, nodes.value),
            ("pmix.pmap", STRING, ranks.value),
            *((key, U32, size) for key in ("pmix.univ.size", "pmix.job.size", "pmix.max.size")),
            ("pmix.num.nodes", U32, len(space.sizes)),
            ("pmix.job.napps", U32, 1),
        ]
        if here:
            pairs += [
                *((key, U32, len(here)) for key in ("pmix.local.size", "pmix.node.size")),
                ("pmix.lpeers", STRING, ",".join(map(str, here))),
                ("pmix.lldr", RANK, here[0]),
                *((key, STRING, folder) for key in ("pmix.tmpdir", "pmix.nsdir")),
            ]
        for number, node in enumerate(space.nodes):
            local = space.ranks(number)
            pairs += [
                ("pmix.pdata", ARRAY, _rank(rank, rank - local[0], number, node, folder)) for rank in local
            ]
        array, _kept = infos(pairs)
        name = c.c_char_p(space.name.encode())
        self._wait("PMIx_server_register_nspace", name, len(here), array, _N(len(array)))

    def admit(self, nspace: str, rank: int) -> dict[str, str]:
        """Expect this rank; the environment by which it finds us."""
        proc = Proc(nspace.encode(), rank)
        self._wait("PMIx_server_register_client", c.byref(proc), os.getuid(), os.getgid(), None)
        listed = _KEYS()
        self._check(
            self._lib.PMIx_server_setup_fork(c.byref(proc), c.byref(listed)), "PMIx_server_setup_fork"
        )
        pairs = (each.partition("=") for each in keys_of(listed))
        return {name: value for name, _, value in pairs}

    # ---- answers to upcalls --------------------------------------------------------------------------

    def give(self, back: int, data: Any, status: int, blob: bytes) -> None:
        """Hand over what ranks have put."""
        buffer = c.create_string_buffer(blob, len(blob)) if blob else None
        self._kept.append(buffer)
        MODEX(back)(status, c.addressof(buffer) if buffer else None, len(blob), data, None, None)

    @staticmethod
    def over(back: int, data: Any, status: int) -> None:
        """Say that a call is over."""
        OVER(back)(status, data)

    def found(
        self, back: int, data: Any, status: int, items: Sequence[tuple[Member, str, int, bytes]]
    ) -> None:
        """Hand over what was looked up: who has published it, under which name, its type, and what it is."""
        array = (Found * len(items))()
        kept: list[Any] = [array]
        for slot, ((nspace, rank), key, kind, value) in zip(array, items, strict=True):
            slot.proc.nspace, slot.proc.rank, slot.key = nspace.encode(), rank, key.encode()
            slot.value.type = kind
            kept.append(_fill(slot.value.data, kind, value))
        self._kept.append(kept)
        FOUND(back)(status, c.addressof(array) if items else None, len(items), data)

    # ---- for other groups ----------------------------------------------------------------------------

    def put(self, nspace: str, rank: int, tell: Callable[[int, bytes], None]) -> None:
        """Have ``tell`` called, in the library's thread, with what a rank of ours has put, as soon as it has."""
        proc = Proc(nspace.encode(), rank)

        def told(status: int, data: Any, size: int, _: Any) -> None:
            blob = content(data, size) if status == OK else b""
            self._kept.append(self._wanted.pop(key))  # it is still being called
            tell(status, blob)

        back = PUT(told)
        key = id(back)
        self._wanted[key] = back, proc
        status = self._lib.PMIx_server_dmodex_request(c.byref(proc), back, None)
        if status != OK:
            told(status, None, 0, None)

    def forget(self, nspace: str) -> None:
        """Nothing of this namespace is needed any more."""
        self._lib.PMIx_server_deregister_nspace(c.c_char_p(nspace.encode()), None, None)


def _rank(rank: int, local: int, node: int, host: str, folder: str) -> list[Pair]:
    """What a namespace says of one of its ranks."""
    return [
        ("pmix.rank", RANK, rank),
        ("pmix.appnum", U32, 0),
        *((key, RANK, rank) for key in ("pmix.apprank", "pmix.grank")),
        *((key, U16, local) for key in ("pmix.lrank", "pmix.nrank")),
        ("pmix.nodeid", U32, node),
        ("pmix.hname", STRING, host),
        ("pmix.pdir", STRING, f"{folder}/{rank}"),
    ]
