"""Messages between places over TCP, by ZeroMQ, encrypted and authenticated by CURVE with the program's own keys.

Each place takes in at one ROUTER socket and sends by a DEALER of its own to each place that it has something to say
to. Large buffers for a place of the same machine go past them (``lanes.py``). A connection that breaks is not made
again: ZeroMQ would lose what was under way without a word.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zmq
from zmq.utils import z85

from pliant.apgas.place.messages import AnyMessage, Buffer, Codec, Payload
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport.keys import Contact, Keys
from pliant.apgas.transport.lanes import MARK, Lanes
from pliant.model.errors import PliantError
from pliant.model.hosts import contact

LINGER_MS = 2000
"""How long what was sent last may take to leave."""
END_S = 10.0
"""How long others may take to end, when the program has: they have to hear of it, and may not even be connected."""
LAST_WORDS_S = 0.25
"""How long it may come behind the news that its sender has gone."""
HEAR_MS = 10
HEARTBEAT_MS = 5000
SILENCE_MS = 30000
"""A place that does not even answer heartbeats for so long is lost. One that stands still for less loses nothing: what
is sent to it waits here and in the kernel."""
_EVENT = struct.Struct("=H")
"""How the message of a socket's monitor begins; pyzmq's function for it brings asyncio, a third of a place's start."""
_WHY = {zmq.EVENT_DISCONNECTED: "the connection broke", zmq.EVENT_CLOSED: "nobody listens there"}
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
)


class _Guard:
    """Admits peers that have the program's key. libzmq asks it by ZAP (ZeroMQ RFC 27)."""

    def __init__(self, context: zmq.Context[Any], key: str) -> None:
        self._key = z85.decode(key)
        self.socket = context.socket(zmq.REP)
        self.socket.bind("inproc://zeromq.zap.01")

    def answer(self) -> None:
        """If somebody asks."""
        with contextlib.suppress(zmq.Again):
            version, number, *_, mechanism, key = self.socket.recv_multipart(zmq.NOBLOCK)
            known = mechanism == b"CURVE" and key == self._key
            said = (b"200", b"OK") if known else (b"400", b"not the program's key")
            self.socket.send_multipart([version, number, *said, b"", b""])


class Sockets:
    """The transport of ``runtime``, listening on ``host``."""

    def __init__(self, runtime: Runtime, keys: Keys, host: str = "127.0.0.1") -> None:
        self.refused = 0
        """Connections of strangers."""
        self._runtime = runtime
        self._keys = keys
        # One for each direction: others see this place go when the first is over, and may hear its last words before.
        self._incoming: zmq.Context[Any] = zmq.Context()
        self._outgoing: zmq.Context[Any] = zmq.Context()
        self._guard = _Guard(self._incoming, keys.client_public)
        self._router = self._incoming.socket(zmq.ROUTER)
        self._router.curve_server = True
        self._router.curve_publickey = keys.server_public.encode("ascii")
        self._router.curve_secretkey = keys.server_secret.encode("ascii")
        self._router.rcvhwm = 0
        self._router.ipv6 = ":" in host
        self._beat(self._router)
        port = self._bind(host)
        self.address = _address((host, port))
        self.contact = Contact(keys, self.address)
        """What other places have to know to come to this one."""
        self._lanes = Lanes(runtime.here, self.address, keys.client_secret)
        self._dealers: dict[int, zmq.Socket[Any]] = {}
        self._addresses: dict[int, str] = {}
        self._broken: set[int] = set()
        """Places to which nothing can be sent any more."""
        self._codec = Codec()
        # Sockets belong to one thread: others tell it what has changed by this pair.
        self._tell = self._incoming.socket(zmq.PAIR)
        self._tell.bind("inproc://pliant-tell")
        self._told = self._incoming.socket(zmq.PAIR)
        self._told.connect("inproc://pliant-tell")
        self._watched: dict[Any, int] = {}
        self._new: list[tuple[Any, int]] = [(self._router.get_monitor_socket(sum(_REFUSED)), -1)]
        self._closing = False
        self._ending = False
        self._linger_ms = LINGER_MS
        self._thread = threading.Thread(
            target=self._listen, name=f"place {runtime.here} sockets", daemon=True
        )
        self._thread.start()

    def _bind(self, host: str) -> int:
        """The port at which this place listens; PliantError if ``host`` is none of this machine's addresses."""
        try:
            return self._router.bind_to_random_port(_address((host, 0)).removesuffix(":0"))
        except zmq.ZMQError as error:
            self._incoming.destroy(linger=0)
            raise PliantError(
                f"place({self._runtime.here}) cannot listen at {host} (PLIANT_PLACE_HOST): {error}"
            ) from error

    # ---- sending: under the runtime's lock -------------------------------------------------------------

    def connect(self, place: int, address: str) -> None:
        self._addresses[place] = address

    def send(self, place: int, message: AnyMessage, payload: Payload) -> None:
        dealer = self._dealers.get(place)
        if dealer is None:
            if place not in self._addresses or self._closing:
                return
            dealer = self._open(place)
        # With copy=True the parts belong to the sender again when this returns. There is no limit to what waits, so
        # that what cannot be sent at once has nowhere to go any more.
        mark: tuple[Buffer, ...] = ()
        if (put := self._lanes.put(place, self._addresses[place], payload)) is not None:
            mark, payload = put[:1], put[1]
        with contextlib.suppress(zmq.Again):
            dealer.send_multipart([*mark, self._codec.encode(message), *payload], zmq.NOBLOCK, copy=True)

    def disconnect(self, place: int) -> None:
        self._addresses.pop(place, None)
        self._lanes.forget(place)
        dealer = self._dealers.pop(place, None)
        if dealer is not None:
            # In this order: libzmq would wait for ever to tell a monitor that is closed.
            dealer.disable_monitor()
            dealer.close(linger=0 if place in self._broken else self._linger_ms)
            self._new.append((None, place))
            self._tell.send(b"")

    def await_ends(self, limit_s: float = END_S) -> None:
        """All others were told to end: wait until they have closed their connections. None of them is lost by that."""
        with self._runtime.monitor:
            self._ending = True
            self._runtime.monitor.wait_for(lambda: self._dealers.keys() <= self._broken, limit_s)

    def close(self, linger_ms: int = LINGER_MS) -> None:
        with self._runtime.monitor:
            if self._closing:
                return
            self._closing, self._linger_ms = True, linger_ms
            for place in list(self._dealers):
                self.disconnect(place)
            self._tell.send(b"")
        if threading.current_thread() is not self._thread:
            self._thread.join(linger_ms / 1000)

    def forked(self) -> None:
        self._closing = True
        self._lanes.close()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number, ends in _connections():
            if not ends.isdisjoint({self.address, *self._addresses.values()}):
                os.dup2(null, number, inheritable=False)
        os.close(null)

    def _open(self, place: int) -> zmq.Socket[Any]:
        keys = self._keys
        dealer: zmq.Socket[Any] = self._outgoing.socket(zmq.DEALER)
        self._dealers[place] = dealer
        dealer.routing_id = b"p%d" % self._runtime.here
        dealer.curve_serverkey = keys.server_public.encode("ascii")
        dealer.curve_publickey = keys.client_public.encode("ascii")
        dealer.curve_secretkey = keys.client_secret.encode("ascii")
        dealer.sndhwm = 0
        dealer.ipv6 = "[" in self._addresses[place]
        dealer.reconnect_ivl = -1
        self._beat(dealer)
        self._new.append((dealer.get_monitor_socket(sum(_WHY) | sum(_REFUSED)), place))
        self._tell.send(b"")
        dealer.connect(self._addresses[place])
        return dealer

    @staticmethod
    def _beat(socket: zmq.Socket[Any]) -> None:
        socket.heartbeat_ivl = HEARTBEAT_MS
        socket.heartbeat_timeout = SILENCE_MS
        socket.tcp_keepalive = 1

    # ---- listening: in a thread of its own ---------------------------------------------------------------

    def _listen(self) -> None:
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._told, zmq.POLLIN)
        poller.register(self._guard.socket, zmq.POLLIN)
        self._watch(poller)
        while not self._closing:
            for ready, _ in poller.poll(1000):
                if ready is self._router:
                    self._take_in()
                elif ready is self._guard.socket:
                    self._guard.answer()
                elif ready is self._told:
                    self._told.recv()
                    self._watch(poller)
                elif ready in self._watched:
                    self._note(poller, ready)
        self._end()

    def _take_in(self) -> None:
        for _ in range(100):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            sender, parts = frames[0].bytes, [frame.buffer for frame in frames[1:]]
            try:
                place = int(sender[1:])
                mark = parts.pop(0) if parts[0][:1] == MARK else None
                message = self._codec.decode(parts.pop(0))
            except (ValueError, IndexError, msgspec.DecodeError) as error:
                print(f"pliant: place({self._runtime.here}): no message: {error}", file=sys.stderr)  # noqa: T201
                continue
            self._receive(place, message, parts, mark)

    def _receive(self, place: int, message: AnyMessage, payload: Payload, mark: Buffer | None) -> None:
        if mark is not None:
            try:
                payload = self._lanes.take(place, mark, payload)
            except (LookupError, OSError, msgspec.DecodeError) as error:
                self._runtime.lost(place, f"a part of what it has sent is not there: {error}")
                return
        self._runtime.receive(place, message, payload)

    def _watch(self, poller: zmq.Poller) -> None:
        with self._runtime.monitor:
            new, self._new = self._new, []
        for monitor, place in new:
            if monitor is None:
                for watched in [each for each, of in self._watched.items() if of == place]:
                    self._forget(poller, watched)
            else:
                self._watched[monitor] = place
                poller.register(monitor, zmq.POLLIN)

    def _note(self, poller: zmq.Poller, monitor: Any) -> None:
        (event,) = _EVENT.unpack_from(monitor.recv_multipart()[0])
        place = self._watched[monitor]
        if place < 0:
            self.refused += 1
        elif event != zmq.EVENT_MONITOR_STOPPED:
            poller.unregister(monitor)
            with self._runtime.monitor:
                self._broken.add(place)
                self._runtime.monitor.notify_all()
                if self._ending:
                    return
            self._hear_out()
            self._runtime.lost(place, _WHY.get(event, "it refused the connection"))

    def _hear_out(self) -> None:
        """Take in what a place has said last: that it leaves, say, or that all is over. It comes by another connection
        than the one that has broken, and so perhaps later."""
        until = time.monotonic() + LAST_WORDS_S
        while not self._closing and time.monotonic() < until:
            if self._router.poll(HEAR_MS):
                self._take_in()
            self._guard.answer()

    def _forget(self, poller: zmq.Poller, monitor: Any) -> None:
        del self._watched[monitor]
        if monitor in poller:
            poller.unregister(monitor)
        monitor.close(linger=0)

    def _end(self) -> None:
        with self._runtime.monitor:
            self._router.disable_monitor()
            for monitor in list(self._watched):
                monitor.close(linger=0)
            self._lanes.close()
            self._outgoing.destroy(linger=self._linger_ms)
            self._incoming.destroy(linger=0)


def _connections() -> Iterator[tuple[int, set[str]]]:
    """This process's TCP sockets, by their descriptors, with the addresses of their ends."""
    for number in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as connection:
                if connection.family in _TCP and connection.type == socket.SOCK_STREAM:
                    ends = {_address(connection.getsockname())}
                    with contextlib.suppress(OSError):  # it listens
                        ends.add(_address(connection.getpeername()))
                    yield number, ends


_TCP = (socket.AF_INET, socket.AF_INET6)


def _address(end: tuple[str, int]) -> str:
    """ZeroMQ's name of an end; IPv6 gives more than host and port."""
    return f"tcp://{contact(*end[:2])}"
