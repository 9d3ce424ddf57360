"""ZooKeeper's sessions for faults: passwords, owners, the packet that ends a session."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from highwater.faults.zookeeper.sessions import end_session, owners_in, session_password
from highwater_core.ids import Endpoint

SESSION = 0x10001AEE6050001
GIVEN = "e491d58a2a4ceb968c4538b6b7953c9b"

DUMP = """SessionTracker dump:
Session Sets (3)/(2):
1 expire at Thu Jan 01 00:00:01 UTC 1970:
\t0x10001ab342e0004
ephemeral nodes dump:
Sessions with Ephemerals (2):
0x10001ab342e0004:
\t/brokers/ids/1
0xff00000000000001:
\t/controller
\t/highwater/controllers/1000
Connections dump:
Connections Sets (1)/(1):
"""


@pytest.mark.parametrize(
    ("session_id", "password"),
    [
        (0x10001AEE6050000, "d170db8a8a000c529702d18ae30c28ce"),
        (SESSION, GIVEN),
        (0x10001AEE6050002, "ab2ee78a4a694dc8ad7c02343cfbfe33"),
    ],
)
def test_a_sessions_password_is_the_one_that_a_server_gave_it(
    session_id: int, password: str
) -> None:
    assert session_password(session_id).hex() == password


def test_owners_are_those_of_the_ephemeral_znodes_and_ids_are_signed_as_the_protocol_has_them() -> (
    None
):
    assert owners_in(DUMP) == {
        "/brokers/ids/1": 0x10001AB342E0004,
        "/controller": 0xFF00000000000001 - (1 << 64),
        "/highwater/controllers/1000": 0xFF00000000000001 - (1 << 64),
    }


@pytest.mark.parametrize(
    "answer", ["", "This ZooKeeper instance is not currently serving requests"]
)
def test_a_server_that_does_not_serve_names_no_owner(answer: str) -> None:
    assert owners_in(answer) == {}


def test_a_session_is_taken_over_and_closed_before_its_owner_can_take_it_back() -> None:
    """Both frames are there before the server has answered anything."""
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while len(received) < 4 + 45 + 4 + 8:
                    received.extend(connection.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        end_session(Endpoint("127.0.0.1", server.getsockname()[1]), SESSION)
        thread.join(10)
    size, _, _, _, session_id, length = struct.unpack_from(">iiqiqi", received)
    assert (size, session_id, length) == (45, SESSION, 16)
    assert received[32:48].hex() == GIVEN
    assert struct.unpack_from(">iii", received, 49) == (8, 1, -11)
