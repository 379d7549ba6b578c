"""The server: who is let in, what messages may do, and that tabs do not know each other."""

import asyncio
import contextlib
import gc
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("websockets")

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tokenfield.errors import InputError
from tokenfield.lab import server as module
from tokenfield.lab.server import MOST_TABS, Server, merged, open_to_all
from tokenfield.lab.session import Session
from tokenfield.lab.wire import dumped, unpack

SMALL = {"p": {"n": 8, "beta": 2.0}}


def served(test, seconds=120, **options):
    """Run a test beside a server."""

    async def both():
        server = Server(lambda link: Session(None, link), **options)
        sockets = await server.listen()
        try:
            return await asyncio.wait_for(test(server), seconds)
        finally:
            sockets.close(close_connections=True)
            await sockets.wait_closed()
            server.workers.shutdown(wait=True, cancel_futures=True)

    return asyncio.run(both())


@contextlib.asynccontextmanager
async def tab(server, link=SMALL, **options):
    """A page: its socket, after the greeting."""
    origin = options.pop("origin", f"http://127.0.0.1:{server.port}")
    address = f"ws://127.0.0.1:{server.port}/live" + (f"?token={server.token}" if server.token else "")
    async with connect(address, origin=origin, max_size=None, compression=None, **options) as socket:
        await socket.send(json.dumps({"hello": link}))
        yield socket


async def heard(socket, wanted, acknowledge=True, seconds=60):
    """The next message that is wanted: a frame, or JSON with this name."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        message = await asyncio.wait_for(socket.recv(), seconds)
        if isinstance(message, bytes):
            found = unpack(message)
            if acknowledge:
                await socket.send(json.dumps({"ack": found[0]["seq"]}))
            if wanted == "frame":
                return found
        elif wanted in (answer := json.loads(message)):
            return answer
    raise TimeoutError(wanted)


async def asked(server, path="/", **headers):
    """The raw answer to a GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = {"Host": f"127.0.0.1:{server.port}", "Connection": "close"} | headers
    text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items() if value is not None)
    writer.write(f"GET {path} HTTP/1.1\r\n{text}\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer.decode(errors="replace")


def status(answer):
    return int(answer.split()[1])


def test_files_and_their_policy():
    async def test(server):
        page = await asked(server)
        assert status(page) == 200 and "default-src 'none'" in page and "frame-ancestors 'none'" in page
        assert "nosniff" in page and "Server:" not in page
        for name in ("lab.js", "page.js", "lab.css"):
            answer = await asked(server, f"/{name}")
            assert status(answer) == 200 and "text/" in answer
        for path in (
            "/../server.py",
            "/..%2fserver.py",
            "/web/lab.js",
            "/etc/passwd",
            "//etc/passwd",
            "/explorables",
            "/x",
        ):
            assert status(await asked(server, path)) == 404, path

    served(test)


def test_foreign_hosts_are_refused():
    async def test(server):
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", f"127.0.0.1.evil:{server.port}", ""):
            assert status(await asked(server, Host=host)) in (400, 421), host
        assert status(await asked(server, Host=f"localhost:{server.port}")) == 200

    served(test)


def test_foreign_origins_are_refused():
    async def test(server):
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{server.port}", None, "http://127.0.0.1:1"):
            with pytest.raises(InvalidStatus) as refused:
                async with tab(server, origin=origin):
                    pass
            assert refused.value.response.status_code == 403
        assert server.tabs == 0

    served(test)


def test_a_network_needs_two_words_and_a_token():
    with pytest.raises(InputError, match="--unsafe-network"):
        open_to_all(False, "0.0.0.0")
    with pytest.raises(InputError, match="goes with --host"):
        open_to_all(True, None)
    assert open_to_all(False, None) == ("127.0.0.1", None)
    host, token = open_to_all(True, "0.0.0.0")
    assert host == "0.0.0.0" and len(token) >= 24

    async def test(server):
        assert status(await asked(server)) == 403
        assert status(await asked(server, "/?token=wrong")) == 403
        assert status(await asked(server, f"/?token={server.token}")) == 200
        assert server.token in server.address
        async with tab(server) as socket:
            assert (await heard(socket, "controls"))["title"]

    served(test, token="a-token-of-the-test")


def test_a_tab_moves_answers_and_stands_still():
    async def test(server):
        async with tab(server) as socket:
            hello = await heard(socket, "controls")
            assert hello["p"]["n"] == 8
            first = (await heard(socket, "frame"))[0]
            later = (await heard(socket, "frame"))[0]
            assert first["seq"] == 1 and later["t"] > first["t"]
            await socket.send(json.dumps({"set": {"beta": 1e9}}))
            answer = await heard(socket, "p")
            assert answer["p"]["beta"] == 64.0 and answer["link"]["p"]["beta"] == 64.0
            await socket.send(json.dumps({"act": "toml"}))
            assert 'kind = "softmax"' in (await heard(socket, "toml"))["toml"]
            await socket.send(json.dumps({"act": "pause"}))
            while (await heard(socket, "frame"))[0]["play"]:
                pass
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(heard(socket, "frame"), 0.5)

    served(test)


def test_at_most_two_frames_are_under_way():
    async def test(server):
        async with tab(server) as socket:
            for _ in range(2):
                await heard(socket, "frame", acknowledge=False)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(heard(socket, "frame", acknowledge=False), 0.7)
            for _ in range(50):  # more acknowledgements than frames buy nothing
                await socket.send(json.dumps({"ack": 1}))
            for _ in range(2):
                await heard(socket, "frame", acknowledge=False)

    served(test)


def test_long_work_is_announced(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)

    class Slow(Session):
        def step(self, elapsed):
            time.sleep(0.3)
            super().step(elapsed)

    async def test(server):
        server.make = lambda link: Slow(None, link)
        async with tab(server) as socket:
            while (await heard(socket, "say"))["kind"] != "busy":
                pass
            assert (await heard(socket, "say"))["say"] == ""

    served(test)


def test_an_error_of_one_tab_ends_nobody():
    class Broken(Session):
        def step(self, elapsed):
            raise ZeroDivisionError("something that nobody thought of")

    async def test(server):
        server.make = lambda link: (Broken if link.get("broken") else Session)(None, SMALL)
        async with tab(server, {"broken": 1}) as one, tab(server, {}) as other:
            while "nobody thought of" not in (await heard(one, "say"))["say"]:
                pass
            await heard(other, "frame")
            await heard(other, "frame")
            await one.send(json.dumps({"act": "toml"}))
            assert (await heard(one, "toml"))["name"] == "spec.toml"

    served(test)


def test_fifty_tabs_have_states_of_their_own():
    async def test(server):
        async with contextlib.AsyncExitStack() as stack:
            links = [{"p": {"n": 9 + k % 7, "seed": k, "beta": 1.0 + k}} for k in range(50)]
            tabs = await asyncio.gather(*(stack.enter_async_context(tab(server, link)) for link in links))
            frames = await asyncio.gather(*(heard(socket, "frame") for socket in tabs))
            assert server.tabs == 50
            for link, (_, arrays) in zip(links, frames, strict=True):
                assert len(arrays["x"]) == link["p"]["n"]
            assert len({arrays["x"].tobytes() for _, arrays in frames}) == 50
            again = await asyncio.gather(*(heard(socket, "frame") for socket in tabs))
            assert all(header["t"] > 0 for header, _ in again)

    served(test)


def test_too_many_tabs_are_refused():
    async def test(server):
        server.tabs = MOST_TABS
        with pytest.raises(InvalidStatus) as refused:
            async with tab(server):
                pass
        assert refused.value.response.status_code == 503
        server.tabs = 0

    served(test)


async def closing(socket, messages):
    """The code with which a tab is closed that sends these."""
    try:
        for message in messages:
            await socket.send(message)
        while True:
            await asyncio.wait_for(socket.recv(), 10)
    except ConnectionClosed as closed:
        return None if closed.rcvd is None else closed.rcvd.code


def test_a_flood_and_a_large_message_close_the_tab_alone():
    async def test(server):
        async with tab(server) as other:
            async with tab(server) as socket:
                assert await closing(socket, ['{"drop": 1}'] * 2000) in (None, 4429)
            async with tab(server) as socket:
                await heard(socket, "frame")
                assert await closing(socket, ["[" * 70_000]) in (None, 1009)
            await heard(other, "frame")
            for _ in range(100):
                await asyncio.sleep(0.05 * (server.tabs > 1))
            assert server.tabs == 1

    served(test)


def hostile(rng):
    """A message of somebody who means no good."""
    names = ["set", "act", "drag", "drop", "add", "remove", "panels", "ack", "hello", "own", "p"]
    plain = [None, True, -1, 1e308, "x" * rng.randrange(50), [], {}, [1e308], [0, 1e300, 0, 0], [[0]]]
    sets = [
        {"n": -5},
        {"n": "9"},
        {"measure": "file"},
        {"attention": "krause"},
        {"beta": float("nan")},
        {"d": 2.5},
        {"n": 3},
    ]
    value = lambda: rng.choice([*plain, *sets])
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return "".join(rng.choice('{}[]":,0123456789eE.-tfn\\u') for _ in range(rng.randrange(80)))
    if kind == 2:
        return "[" * rng.randrange(5000)
    return json.dumps({rng.choice(names): value() for _ in range(rng.randrange(3))})


def test_a_thousand_hostile_messages_neither_crash_nor_steer():
    rng = random.Random(0)

    async def test(server):
        async with tab(server) as other:
            await heard(other, "frame")
            async with tab(server) as socket:
                await heard(socket, "frame")
                for k in range(1000):
                    await socket.send(hostile(rng))
                    if k % 20 == 0:
                        await asyncio.sleep(0.1)  # within the rate
                        with contextlib.suppress(TimeoutError):
                            await heard(socket, "frame", seconds=0.2)
                await socket.send(json.dumps({"set": {"n": 5, "attention": "softmax", "measure": "uniform_sphere"}}))
                await socket.send(json.dumps({"act": "reset"}))
                while len((await heard(socket, "frame"))[1]["x"]) != 5:
                    pass
            assert len((await heard(other, "frame"))[1]["x"]) == 8
        for greeting in ("", "[]", "{}", "null", '{"hello": 3}', '{"hello": {"p": [1], "own": "x"}}', "x" * 100):
            async with connect(
                f"ws://127.0.0.1:{server.port}/live", origin=f"http://127.0.0.1:{server.port}"
            ) as socket:
                await socket.send(greeting)
                with contextlib.suppress(ConnectionClosed, TimeoutError):
                    await asyncio.wait_for(socket.recv(), 5)

    served(test)


def test_downloads_are_kept_in_the_folder_alone(tmp_path):
    async def test(server):
        async with tab(server) as socket:
            for act in ("toml", "data", "film", "toml"):
                await heard(socket, "frame")
                await socket.send(json.dumps({"act": act, "name": "../../evil"}))
                await heard(socket, act)

    folder = tmp_path / "out"
    folder.mkdir()
    served(test, out=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["run-1.html", "spec-1.toml", "spec-2.toml", "state-1.npz"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_mail_is_short():
    mail = [
        {"set": {"beta": 1}},
        {"set": {"beta": 2, "n": 3}},
        {"act": "play"},
        {"drag": [0, 1]},
        {"drag": [0, 2]},
        {"set": 3},
    ]
    assert merged(mail) == [{"set": {"beta": 2, "n": 3}}, {"act": "play"}, {"drag": [0, 2]}, {"set": 3}]


def test_frames_are_plain_numbers():
    session = Session(None, SMALL)
    assert "NaN" not in dumped(session.hello()) and np.isfinite(unpack(session.frame())[1]["x"]).all()


def resident():
    """Bytes of memory that this process holds."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_is_flat():
    """Ten minutes of play: tabs come and go, turn β, drag, begin anew and download."""
    minutes = float(os.environ.get("TOKENFIELD_SOAK", "10"))

    async def visit(server, seed):
        async with tab(server, {"p": {"n": 60, "seed": seed % 100}}) as socket:
            for k in range(60):
                await heard(socket, "frame")
                message = [
                    {"set": {"beta": float(k % 30)}},
                    {"drag": [1, 0.0, 0.0, 1.0]},
                    {"act": "reset"},
                    {"act": "film"},
                ][k % 4]
                await socket.send(json.dumps(message))

    async def test(server):
        end, warm, seed = time.monotonic() + 60 * minutes, None, 0
        while time.monotonic() < end:
            await asyncio.gather(*(visit(server, seed + k) for k in range(3)))
            seed += 3
            if warm is None and seed >= 15:
                gc.collect()
                warm = resident()
        gc.collect()
        assert warm is not None and resident() - warm < 80e6

    served(test, seconds=60 * minutes + 120)


# The command.


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "tokenfield", "play", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_the_command_opens_and_ctrl_c_closes_it():
    process = command("--no-browser")
    try:
        line = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])

        async def look():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            assert b"200 OK" in await reader.read()
            writer.close()

        asyncio.run(look())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0 and "Traceback" not in err
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.toml"], "cannot be read"),
        (["--host", "0.0.0.0"], "--unsafe-network"),
        (["--unsafe-network"], "goes with --host"),
        (["--set", "time.end=3"], "SPEC"),
    ],
)
def test_the_command_refuses_in_a_sentence(arguments, words):
    process = command("--no-browser", *arguments)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and words in " ".join(err.split()) and "Traceback" not in err


def test_help_teaches_and_loads_neither_jax_nor_websockets():
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom tokenfield.cli import app\n"
        "print(CliRunner().invoke(app, ['play', '--help']).output)\n"
        "assert not {'jax', 'websockets', 'anywidget'} & set(sys.modules), 'loaded'"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--no-browser" in done.stdout and "tokenfield play spec.toml" in " ".join(done.stdout.split())


def test_a_missing_extra_is_said():
    script = (
        "import sys\nsys.modules['websockets'] = None\nsys.modules['websockets.asyncio'] = None\n"
        "sys.modules['websockets.asyncio.server'] = None\nsys.argv = ['tokenfield', 'play', '--no-browser']\n"
        "from tokenfield.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'tokenfield[play]'" in done.stderr
