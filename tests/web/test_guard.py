"""Attacks: other origins, other names, no token, a wrong one; too much, too slow, at once."""

import asyncio
import json
import logging
import socket
import threading
import time
from contextlib import suppress

import httpx
import pytest

from multiform.web import Access, Limits
from multiform.web._guard import HEADERS
from tests.web.conftest import served

MODEL = "/v1/model"


def problem(response, status):
    """What a refusal says."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status
    assert told["detail"].endswith(".")
    return told["detail"]


# --------------------------------------------------------------------------------------------------------- who may ask


@pytest.mark.parametrize("path", [MODEL, "/openapi.json", "/", "/v1/sessions/x", "/no/such/page", "/cases/x"])
def test_nothing_without_a_token(plan_server, path):
    problem(httpx.get(plan_server.address + path), 401)
    problem(httpx.post(plan_server.address + path, json={}), 401)


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Basic {token}", "{token}", "Bearer {token}x", "Bearer é{token}"]
)
def test_a_wrong_token_is_none(plan_server, header):
    given = header.format(token=plan_server.token).encode("latin-1")
    problem(httpx.get(plan_server.address + MODEL, headers={b"authorization": given}), 401)


def test_the_token_of_programs_opens_no_page_by_its_address(plan_server):
    problem(httpx.get(f"{plan_server.address}/?token={plan_server.token}"), 401)


def test_a_link_is_exchanged_once_for_a_cookie_that_no_script_reads(plan_server):
    link = plan_server.link()
    first = httpx.get(link)
    assert first.status_code == 303
    assert first.headers["location"] == "/"  # the token is gone from the address
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    problem(httpx.get(link), 401)
    assert httpx.get(plan_server.address, cookies=first.cookies).status_code == 200


def test_a_post_exchanges_nothing(plan_server):
    link = plan_server.link()
    problem(httpx.post(link), 401)
    assert httpx.get(link).status_code == 303


def test_cookies_of_another_server_are_none(plan_server, matrix_server):
    with matrix_server.browser() as other:
        problem(httpx.get(plan_server.address, cookies=other.cookies), 401)
        assert plan_server.app.state.access.cookie_name not in other.cookies


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:{port}", "localhost.", "", "127.0.0.1:x", "[::1", "0"],
)
def test_another_host_name_is_refused_even_with_the_token(plan_server, host):
    """DNS rebinding: the page of elsewhere has our address now, and still its own name."""
    with plan_server.client(host=host.format(port=plan_server.port)) as client:
        assert client.get(MODEL).status_code in (400, 421)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}"])
def test_names_of_this_machine_are_ours(plan_server, host):
    with plan_server.client(host=host.format(port=plan_server.port)) as client:
        assert client.get(MODEL).status_code == 200


def test_two_hosts_are_one_too_many(plan_server):
    lines = (
        f"GET {MODEL} HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nAuthorization: Bearer {plan_server.token}"
    )
    assert raw(plan_server, lines + "\r\n\r\n").startswith(b"HTTP/1.1 4")


def test_addresses_are_names_only_where_others_may_ask():
    local, remote = Access(), Access(names=("*", "Ward7.Example"))
    assert not local.is_ours("192.168.1.7:8440")
    assert remote.is_ours("192.168.1.7:8440")
    assert remote.is_ours("[2001:db8::1]:8440")
    assert remote.is_ours("ward7.example")
    assert not remote.is_ours("evil.example")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}", ""])
@pytest.mark.parametrize("path", [MODEL, "/"])
def test_another_origin_is_refused_even_with_token_and_cookie(plan_server, origin, path):
    with plan_server.browser() as browser:
        headers = {"origin": origin.format(port=plan_server.port), "authorization": f"Bearer {plan_server.token}"}
        assert "another page" in problem(browser.get(path, headers=headers), 403)
        assert "another page" in problem(browser.post(path, headers=headers, json={}), 403)


def test_a_server_that_speaks_tls_may_stand_between_under_a_name_that_was_given():
    access = Access(names=("127.0.0.1", "*", "ward7.example"))
    assert access.is_own_page("https://ward7.example", "http", "ward7.example")
    assert access.is_own_page("http://ward7.example:8440", "http", "Ward7.example:8440")
    assert not access.is_own_page("https://ward7.example:8440", "http", "ward7.example")
    assert not access.is_own_page("https://127.0.0.1", "http", "127.0.0.1")
    assert not access.is_own_page("https://192.0.2.1", "http", "192.0.2.1")
    assert not access.is_own_page("", "http", "127.0.0.1")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_has_a_browser_fetch_is_refused(plan_server, site):
    with plan_server.browser() as browser:
        fetched = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        del browser.headers["origin"]
        assert "another site" in problem(browser.get("/", headers=fetched), 403)
        # A link there may be followed: a page is shown, and nothing changes.
        assert browser.get("/", headers=fetched | {"sec-fetch-mode": "navigate"}).status_code == 200
        posted = browser.post("/cases", headers=fetched | {"sec-fetch-mode": "navigate"}, data={"action": "undo"})
        problem(posted, 403)


def test_a_cookie_alone_changes_nothing(plan_server):
    """A form of elsewhere, in a browser that sends neither Origin nor Sec-Fetch-Site."""
    with plan_server.browser() as browser:
        del browser.headers["origin"]
        assert "which page" in problem(browser.post("/v1/sessions", json={}), 403)
        assert browser.get("/").status_code == 200
        assert browser.post("/v1/sessions", json={}, headers={"sec-fetch-site": "same-origin"}).status_code == 201


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "PROPFIND"])
def test_other_methods_get_nothing(plan_server, method):
    """No preflight of another page is ever answered with leave."""
    response = httpx.request(method, plan_server.address + MODEL, headers={"origin": "http://evil.example"})
    assert response.status_code == 403
    with plan_server.client() as client:
        found = client.request(method, MODEL)
    assert found.status_code == 405
    assert not [name for name in found.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("/v1/sessions/x", "DELETE, GET, HEAD"),
        ("/v1/sessions", "POST"),
        ("/cases", "GET, HEAD, POST"),
        (MODEL, "GET, HEAD"),
        ("/static/page.css", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_taken_says_which_are(plan_server, path, taken):
    with plan_server.client() as client:
        response = client.request("PATCH", path)
        problem(response, 405)
        assert response.headers["allow"] == taken
        page = client.request("PATCH", path, headers={"accept": "text/html"})
        assert page.headers["allow"] == taken


def test_a_problem_is_called_as_its_status_or_by_its_own_name(plan_server):
    with plan_server.client() as client:
        told = client.get("/v1/nothing").json()
        assert (told["type"], told["title"]) == ("about:blank", "Not Found")
        told = client.get("/v1/sessions/none").json()
        assert (told["type"], told["title"]) == ("urn:multiform:problem:no-such-case", "No such case")


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\nNo Header\r\n\r\n", b"\x16\x03\x01\x00\xa5", b"GET / HTTP/1.1\r\nX: " + b"y" * 10**6]
)
def test_what_is_no_http_is_a_problem_too(plan_server, text):
    with socket.create_connection(("127.0.0.1", plan_server.port), timeout=30) as connection:
        connection.sendall(text)
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"cache-control: no-store" in head
    assert json.loads(body)["detail"].startswith("the request cannot be read")


def test_the_page_asks_whether_it_is_known(plan_server):
    """What is behind a lost server: another one, or a case that is no longer there."""
    assert httpx.get(plan_server.address + "/here").status_code == 401
    with plan_server.browser() as browser:
        id = browser.post("/v1/sessions", json={}).json()["id"]
        assert browser.get("/here").status_code == 204
        assert browser.get(f"/here?case={id}").status_code == 204
        browser.delete(f"/v1/sessions/{id}")
        assert browser.get(f"/here?case={id}").status_code == 404


@pytest.mark.parametrize("path", ["/healthz", MODEL, "/", "/no/such/page", "/static/page.css"])
def test_every_answer_has_its_headers(plan_server, path):
    with plan_server.browser() as browser:
        headers = browser.get(path).headers
        for name, value in HEADERS.items():
            assert headers[name] == value
        assert "unsafe" not in headers["content-security-policy"]
        assert "server" not in headers


def test_health_tells_nothing_and_asks_for_nothing(plan_server):
    assert httpx.get(plan_server.address + "/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/static/../_app.py", "/static/..%2f_app.py", "/static/%2e%2e/_guard.py", "/static/"])
def test_static_files_are_those_of_their_folder(plan_server, path):
    lines = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert raw(plan_server, lines).startswith((b"HTTP/1.1 404", b"HTTP/1.1 405"))


@pytest.mark.parametrize("token", ["short", "with a blank in it all", "\n" * 20, "ü" * 20])
def test_tokens_that_are_none_are_refused(token):
    with pytest.raises(ValueError, match="token of application: 16 printable"):
        Access(token)


# ------------------------------------------------------------------------------------------------------------ how much


def raw(server, text, wait=True):
    """Bytes to the server, and what comes back until it closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        found = b""
        while wait and (part := connection.recv(65536)):
            found += part
            if b"\r\n\r\n" in found and b"connection: close" not in found.lower():
                break
        return found


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(matrix_server):
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {matrix_server.token}\r\n"
    answer = raw(matrix_server, f"{head}Content-Type: application/json\r\nContent-Length: {10**9}\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"send fewer rows" in answer
    answer = raw(matrix_server, f"{head}Content-Type: application/json\r\nContent-Length: {'9' * 200}\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))


def test_refused_bodies_take_no_place_of_others(matrix_model):
    """However many came that were too large, compressed or of two sizes."""
    with served(matrix_model, Limits(requests=2)) as server:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
        for line in (
            "Content-Length: 1073741824",
            "Content-Encoding: gzip",
            "Transfer-Encoding: chunked\r\nContent-Length: 1",
        ):
            for _ in range(3):
                assert raw(server, f"{head}{line}\r\n\r\n").startswith(b"HTTP/1.1 4")
        with server.client() as client:
            assert client.post("/v1/predict", json={"rows": [[1, 2, 3]]}).status_code == 200


def test_a_body_of_two_sizes_is_refused(matrix_server):
    """Whoever stands between could see another request in it than we do."""
    for media in ("application/json", "application/vnd.apache.arrow.stream"):
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {matrix_server.token}\r\n"
        sizes = f"Content-Type: {media}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = raw(matrix_server, f"{head}{sizes}5\r\nhello\r\n0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"two sizes" in answer


def test_a_websocket_is_none(matrix_server, caplog):
    """It is answered as any request, and the log gives no advice; a server of another kind is told to close it."""
    with matrix_server.client() as client:
        upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        assert client.get(MODEL, headers=upgrade | {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}).status_code == 200
    assert "websocket" not in caplog.text.lower()
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(matrix_server.app({"type": "websocket", "path": "/static/x", "headers": []}, None, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_gigabyte_that_does_not_say_so_is_refused_on_the_way(matrix_model):
    limits = Limits(body_bytes=2**20)
    sent = 0

    def endless():
        nonlocal sent
        while sent < 10**9:
            sent += 2**16
            yield b" " * 2**16

    with served(matrix_model, limits) as server, server.client() as client:
        with suppress(httpx.TransportError):  # the connection may end while we are still sending
            assert client.post("/v1/predict", content=endless()).status_code == 413
        assert sent < 64 * 2**20
        assert client.get(MODEL).status_code == 200


def test_bodies_of_all_requests_together_are_bounded(matrix_model):
    """Half a body, held open, leaves no room for another of that size; afterwards there is."""
    with served(matrix_model, Limits(body_bytes=10**6, all_bytes=10**6)) as server, server.client() as client:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
        large = b" " * 600_000 + b'{"rows": [[1, 2, 3]]}'
        json_type = {"content-type": "application/json"}
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as half:
            half.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode() + b" " * 600_000)
            while (response := client.post("/v1/predict", content=large, headers=json_type)).status_code == 200:
                time.sleep(0.01)
            assert "too much is being sent at once" in problem(response, 503)
            assert client.post("/v1/predict", json={"rows": [[1, 2, 3]]}).status_code == 200
        while client.post("/v1/predict", content=large, headers=json_type).status_code != 200:
            time.sleep(0.01)


def test_slow_bodies_end(matrix_model):
    """A drop now and then, for ever: neither the request nor the connection stays."""
    with served(matrix_model, Limits(body_seconds=0.5)) as server:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as slow:
            slow.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode())
            found = drops(slow, b" ")
        assert found.startswith(b"HTTP/1.1 408")
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as slow:
            assert drops(slow, b"x") == b""  # not even a request
        with server.client() as client:
            assert client.get(MODEL).status_code == 200


def drops(connection, drop):
    """What comes back while one letter after the other is sent, until the other side has had enough."""
    found = b""
    connection.settimeout(0.05)
    for _ in range(600):
        try:
            connection.sendall(drop)
            if not (part := connection.recv(65536)):
                return found
            found += part
        except TimeoutError:
            continue
        except OSError:
            return found
    raise AssertionError("the server goes on waiting")


def test_a_reader_who_does_not_read_is_left(table_model):
    """The answer is larger than all buffers on the way, and nobody takes it."""
    with served(table_model, Limits(body_seconds=0.5)) as server:
        rows = b"age,city,visit,note\n" + b"40,Rome,2024-01-01,tired\n" * 300_000
        head = (
            f"POST /v1/predict?keep=note&keep=city&keep=visit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\n"
            f"Authorization: Bearer {server.token}\r\nContent-Length: {len(rows)}\r\n\r\n"
        )
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.port))
            deaf.settimeout(60)
            deaf.sendall(head.encode() + rows)
            with pytest.raises(OSError, match=r"reset|pipe"):
                say_something_for_ever(deaf)


def say_something_for_ever(connection):
    """Until the other side is gone."""
    for _ in range(300):
        time.sleep(0.1)
        connection.sendall(b" ")


def test_compressed_bodies_are_not_opened(matrix_server):
    with matrix_server.client() as client:
        response = client.post("/v1/predict", content=b"\x1f\x8b" * 100, headers={"content-encoding": "gzip"})
        assert "compressed" in problem(response, 415)
        response = client.post("/v1/predict", content=b"\x1f\x8b" * 100, headers={"content-type": "text/csv"})
        assert "compressed" in problem(response, 415)


def test_a_long_query_and_long_headers_are_refused(plan_server):
    with plan_server.client() as client:
        problem(client.get(MODEL + "?x=" + "y" * 5000), 400)
        assert client.get(MODEL, headers={"x-long": "y" * 1_000_000}).status_code == 400


def test_more_requests_than_are_taken_are_told_to_come_later(matrix_model, monkeypatch):
    held, going = threading.Event(), threading.Event()
    with served(matrix_model, Limits(requests=2)) as server, server.client() as client:
        before = server.app.state.model.answers

        def slow(*args, **options):
            going.set()
            assert held.wait(30)
            return before(*args, **options)

        monkeypatch.setattr(server.app.state.model, "answers", slow)
        body = {"rows": [[1, 2, 3]]}
        threads = [threading.Thread(target=client.post, args=("/v1/predict",), kwargs={"json": body}) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert going.wait(30)
        while client.get(MODEL).status_code != 503:  # until both are there
            time.sleep(0.01)
        refused = client.post("/v1/predict", json=body)
        assert "ask again" in problem(refused, 503)
        assert refused.headers["retry-after"] == "1"
        held.set()
        for thread in threads:
            thread.join(30)
        assert client.get(MODEL).status_code == 200


@pytest.mark.slow
def test_ten_thousand_requests_at_once(matrix_model):
    """Each is answered or told to come later, and afterwards everything is as before."""
    limits = Limits(requests=8, connections=100)
    with served(matrix_model, limits) as server:
        body = b'{"rows": [[1, 2, 3]]}'
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
            f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        counts = asyncio.run(crowd(server.port, head + body, 10_000))
        assert set(counts) <= {200, 503, 0}
        assert counts[200] > 0
        assert counts[503] > 0
        with server.client() as client:
            assert (
                client.post("/v1/predict", content=body, headers={"content-type": "application/json"}).status_code
                == 200
            )


def test_a_crowd_is_answered_or_told_to_come_later(matrix_model):
    """As above, smaller."""
    with served(matrix_model, Limits(requests=4, connections=40)) as server:
        head = f"GET {MODEL} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        request = f"{head}Authorization: Bearer {server.token}\r\n\r\n"
        counts = asyncio.run(crowd(server.port, request.encode(), 300))
        assert set(counts) <= {200, 503, 0}
        assert counts[200] > 0
        with server.client() as client:
            assert client.get(MODEL).status_code == 200


async def crowd(port, request, n):
    """How often each status came; 0 is a connection that was not taken."""
    gate = asyncio.Semaphore(400)  # what this process may hold open
    counts = dict.fromkeys((200, 503, 0), 0)

    async def one():
        async with gate:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                line = await reader.read()
                writer.close()
            except OSError:
                line = b""
        status = int(line.split()[1]) if line else 0
        counts[status] = counts.get(status, 0) + 1

    await asyncio.gather(*(one() for _ in range(n)))
    return counts


# ------------------------------------------------------------------------------------------------------------- the log


def told(caplog):
    """What the server has logged, whoever listens; not what the client has."""
    return "\n".join(str(one.__dict__) for one in caplog.records if not one.name.startswith(("httpx", "httpcore")))


def test_the_log_has_a_line_a_request_and_nothing_of_the_patient(table_server, plan_server, caplog):
    secret = "Zaphod-Beeblebrox-1978"
    with caplog.at_level(logging.DEBUG), table_server.client() as client:
        client.post("/v1/assess", json={"case": {"age": 42, "city": secret, "note": secret}})
        client.post("/v1/assess", json={"case": {"age": [secret]}})
        client.post("/v1/predict", content=f"age,city\n42,{secret}".encode(), headers={"content-type": "text/csv"})
        client.get(f"/no/{secret}?name={secret}")
        client.request(secret.upper(), "/")
        with plan_server.client() as other:
            id = other.post("/v1/sessions", json={}).json()["id"]
            other.post(f"/v1/sessions/{id}/observe", json={"test": secret, "values": secret})

        def lines_told():
            return [record.getMessage() for record in caplog.records if record.name == "multiform.web"]

        given_up = time.monotonic() + 20  # a line is written once its answer has gone
        while len(lines_told()) < 7 and time.monotonic() < given_up:
            time.sleep(0.01)
    lines = lines_told()
    assert len(lines) == 7
    assert lines[0].startswith("POST /v1/assess 200 ")
    assert lines[-1].startswith("POST /v1/sessions/{id}/observe 422 ")
    assert secret.lower() not in told(caplog).lower()
    assert id not in told(caplog)


def test_who_leaves_in_the_middle_is_no_error_of_ours(matrix_server, caplog):
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {matrix_server.token}\r\n"
    with caplog.at_level(logging.DEBUG):
        raw(matrix_server, f"{head}Content-Length: 1000\r\n\r\n{{", wait=False)
        given_up = time.monotonic() + 20
        while "POST /v1/predict 499 " not in told(caplog) and time.monotonic() < given_up:
            time.sleep(0.01)
    assert "POST /v1/predict 499 " in told(caplog)
    assert not [one for one in caplog.records if one.name == "multiform.web" and one.levelno > logging.INFO]


def test_an_error_of_ours_says_where_and_not_with_what(matrix_model, monkeypatch, caplog):
    with served(matrix_model) as server, server.client() as client, caplog.at_level(logging.DEBUG):
        monkeypatch.setattr(server.app.state.model, "answers", lambda *args, **options: {}["Zaphod"])
        sentence = problem(client.post("/v1/predict", json={"rows": [[1, 2, 3]]}), 500)
    assert "Zaphod" not in sentence + told(caplog)
    assert "KeyError in" in told(caplog)
    assert "test_guard.py:" in told(caplog)
