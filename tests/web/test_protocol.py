"""What h11 makes of the bytes of a connection, and what our connection does: the same, with fewer copies."""

import asyncio

import h11
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from multiform.web._guard import Limits
from multiform.web._protocol import MOST_WAITING, _Connection, protocol_for

HEAD = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\n"
BODY = bytes(range(256)) * 4
STATED = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n400\r\n" + BODY + b"\r\n0\r\n\r\n"
NEXT = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def told(connection, pieces):
    """The events of these pieces, as uvicorn asks for them; what a body holds is one event."""
    found, body = [], b""
    for piece in pieces:
        connection.receive_data(piece)
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                return [*found, body, str(error)]
            if event is h11.NEED_DATA or event is h11.PAUSED:
                break
            if isinstance(event, h11.Data):
                body += event.data
            else:
                found.append(event if not isinstance(event, h11.EndOfMessage) else body)
    return [*found, body, connection.their_state, connection.trailing_data]


@given(st.sampled_from([STATED, CHUNKED, STATED + NEXT, CHUNKED + NEXT, STATED[:-1], STATED + b"\0"]), st.data())
def test_bytes_mean_the_same_however_they_are_cut(sent, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True) if b > a]
    assert told(_Connection(h11.SERVER), pieces) == told(h11.Connection(h11.SERVER), pieces)


@pytest.mark.parametrize("closed_after", [len(STATED) - 700, len(STATED) - 1])
def test_a_body_that_breaks_off_is_an_error(closed_after):
    pieces = [STATED[:100], STATED[100:closed_after], b""]
    assert told(_Connection(h11.SERVER), pieces) == told(h11.Connection(h11.SERVER), pieces)
    assert "without sending complete message body" in told(_Connection(h11.SERVER), pieces)[-1]


def test_a_piece_of_a_body_is_handed_on_as_it_came():
    connection = _Connection(h11.SERVER)
    connection.receive_data(STATED[:200])
    assert [type(connection.next_event()) for _ in range(3)] == [h11.Request, h11.Data, type(h11.NEED_DATA)]
    piece = bytes(STATED[200:900])
    connection.receive_data(piece)
    assert connection.next_event().data is piece


class Transport(asyncio.Transport):
    """Bytes that come as a test says; what is asked of it is noted."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def pause_reading(self):
        self.asked.append("pause")

    def resume_reading(self):
        self.asked.append("resume")

    def write(self, data):
        self.asked.append(bytes(data))

    def is_closing(self):
        return False


def connected(app):
    """A connection of a server, and its transport."""
    config = uvicorn.Config(app, http="h11", log_config=None, lifespan="off")
    config.load()
    protocol = protocol_for(Limits())(config, uvicorn.server.ServerState(), {}, asyncio.get_running_loop())
    transport = Transport()
    protocol.connection_made(transport)
    return protocol, transport


def test_reading_goes_on_until_much_of_a_body_waits():
    """Each stop and start takes longer than a piece; and what nobody takes does not pile up."""
    piece, taken = b"x" * 2**18, []

    async def take(scope, receive, send):
        while True:
            await allowed.wait()
            message = await receive()
            taken.append(len(message["body"]))

    async def told():
        nonlocal allowed
        allowed = asyncio.Event()
        protocol, transport = connected(take)
        protocol.data_received(HEAD + b"content-length: %d\r\n\r\n" % 2**30)
        for _ in range(MOST_WAITING // len(piece)):
            assert "pause" not in transport.asked
            protocol.data_received(piece)
        assert transport.asked == ["pause"]
        allowed.set()
        for _ in range(8):  # taken, and read again
            await asyncio.sleep(0)
        assert sum(taken) == MOST_WAITING
        assert transport.asked == ["pause", "resume"]
        for _ in range(3):
            protocol.data_received(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert taken[-3:] == [len(piece)] * 3
        assert transport.asked == ["pause", "resume"]
        for task in protocol.tasks:
            task.cancel()
        protocol._go_on()

    allowed = None
    asyncio.run(told())


def test_a_request_behind_another_stops_reading():
    """Nobody reads ahead for whoever sends without waiting for answers."""

    async def told():
        protocol, transport = connected(lambda scope: None)
        protocol.data_received(NEXT + NEXT)
        assert transport.asked == ["pause"]
        for task in protocol.tasks:
            task.cancel()
        protocol._go_on()

    asyncio.run(told())
