"""JSON messages over a socket, one a line, with file descriptors where a message needs them."""

from __future__ import annotations

import array
import fcntl
import json
import os
import select
import socket
from typing import Any

_ROOM = socket.CMSG_SPACE(2 * array.array("i").itemsize)  # for two descriptors at a time


class Link:
    """One end of a connection between two of our processes.

    Example:
        >>> import socket
        >>> ours, theirs = map(Link, socket.socketpair())
        >>> ours.send({"op": "start"})
        >>> theirs.receive()
        ([{'op': 'start'}], [], True)
    """

    def __init__(self, sock: socket.socket) -> None:
        """Takes the socket over; it is used blocking for sending, never for receiving."""
        self.socket = sock
        self._rest = b""
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        """Returns the descriptor, so that a selector takes this object."""
        return self.socket.fileno()

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Sends one message whole.

        Raises:
            OSError: The other end is gone.
        """
        data = json.dumps(message).encode() + b"\n"
        if descriptors:  # they travel with the first byte
            sent = socket.send_fds(self.socket, [data], descriptors)
            data = data[sent:]
        self.socket.sendall(data)

    def receive(self) -> tuple[list[dict[str, Any]], list[int], bool]:
        """Reads what has arrived, without waiting.

        Returns:
            The complete messages, the descriptors that came, and False once the other end
            is gone.
        """
        open_ = True
        while True:
            try:
                # socket.recv_fds would do, but drops its flags (as Python 3.11 has it).
                data, control, _, _ = self.socket.recvmsg(1 << 16, _ROOM, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                open_ = False
                break
            for level, kind, payload in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self._descriptors.extend(array.array("i", payload))
            if not data:
                open_ = False
                break
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        descriptors: list[int] = []
        if lines:  # a message that is not complete keeps its descriptors waiting
            descriptors, self._descriptors = self._descriptors, descriptors
        return [json.loads(line) for line in lines], descriptors, open_

    def writable(self) -> bool:
        """Tells whether a small message can be sent without waiting."""
        return bool(select.select([], [self.socket], [], 0)[1])

    def close(self) -> None:
        """Closes this end."""
        self.socket.close()


def pair() -> tuple[Link, Link]:
    """Returns the two ends of a new connection."""
    ours, theirs = socket.socketpair()
    return Link(_above_standard(ours)), Link(_above_standard(theirs))


def _above_standard(sock: socket.socket) -> socket.socket:
    """Moves a socket away from descriptors 0 to 2, which a program we start gets anew."""
    if sock.fileno() > 2:
        return sock
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, 3))


def from_descriptor(descriptor: int) -> Link:
    """Returns the link over an inherited descriptor; programs started later do not get it."""
    os.set_inheritable(descriptor, False)
    return Link(socket.socket(fileno=descriptor))
