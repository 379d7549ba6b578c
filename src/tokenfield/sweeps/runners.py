"""Who computes the blocks of a sweep: this process, workers of its own, or a laboratory's cluster."""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import queue
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenfield.errors import InputError, short
from tokenfield.sweeps.group import Block, Plan, computed, told
from tokenfield.sweeps.worker import one_thread

FAILURES = 10
"""How many workers may die over one block before it is left for another time."""
HOPELESS = 30
"""How many deaths of each worker, with no group finished between, are enough."""
PATIENCE = 0.2
"""Seconds between two looks at whether somebody wants to stop."""
ANSWER, SILENCE = 10.0, 30.0
"""Seconds within which a scheduler must answer: at first, and while it works, when it is asked as often."""
PARTING = 2.0
"""Seconds that a scheduler has to say goodbye."""

Place = tuple[int, ...]
Came = tuple[Place, "Block | str"] | None
"""A block that was computed, or why it was not; None while nothing has come."""
Runner = Callable[[Plan, Iterable[Place]], Iterator[Came]]


class Lost(InputError):
    """A scheduler that no longer answers."""


def here(plan: Plan, waiting: Iterable[Place]) -> Iterator[Came]:
    """Compute blocks in this process, one after another."""
    for place in waiting:
        try:
            came = computed(plan, place)
        except Exception as error:
            came = told(error)
        yield place, came


@contextlib.contextmanager
def cluster(workers: int | None, scheduler: str | None) -> Iterator[tuple[Runner, str]]:
    """A cluster for a sweep: its own, or the one at an address.

    **Arguments**

    - `workers`: how many processes; as many as there are cores when left out. 0 for this process itself.
    - `scheduler`: the address of a Dask scheduler, such as tcp://10.0.0.5:8786.

    **Returns** a context with what computes blocks, and a sentence on where.

    **Raises** `InputError` where Dask is not installed, or the scheduler does not answer.
    """
    if workers == 0 and scheduler is None:
        yield here, "in this process"
        return
    _refuse_without_dask()
    import dask

    settings = {
        "distributed.scheduler.allowed-failures": FAILURES,
        "distributed.admin.large-graph-warning-threshold": "1GB",
    }
    with warnings.catch_warnings(), dask.config.set(settings), _silence():
        warnings.simplefilter("ignore")
        if scheduler is not None:
            with _known(scheduler) as client:
                yield Cluster(client, None).blocks, f"on the cluster at {scheduler}, dashboard: {_dashboard(client)}"
            return
        count = (os.cpu_count() or 1) if workers is None else workers
        with _own(count) as (client, crew):
            words = f"on {count} worker{'s' if count > 1 else ''}, dashboard: {_dashboard(client)}"
            yield Cluster(client, crew).blocks, words


class Cluster:
    """Blocks on a Dask cluster. Only as many as its workers need are handed over at a time."""

    def __init__(self, client: Any, crew: "Crew | None"):
        self.client, self.crew = client, crew
        self.ready: queue.Queue[Any] = queue.Queue()
        self.running: dict[str, tuple[Any, Place]] = {}
        self.threads, self.asked = 0, -SILENCE

    def blocks(self, plan: Plan, waiting: Iterable[Place]) -> Iterator[Came]:
        """Blocks as they finish, in any order."""
        left = iter(waiting)
        self._hand_over(plan, left)
        while self.running:
            if self.crew is not None:
                self.crew.tend()
            try:
                future = self.ready.get(timeout=PATIENCE)
            except queue.Empty:
                self._width()
                yield None
                continue
            _, place = self.running.pop(future.key)
            came = _result(future)
            del future
            if self.crew is not None:
                self.crew.deaths = 0
            self._hand_over(plan, left)
            yield place, came

    def _hand_over(self, plan: Plan, left: Iterator[Place]) -> None:
        while len(self.running) < self._width():
            place = next(left, None)
            if place is None:
                return
            future = self.client.submit(computed, plan, place, pure=False)
            self.running[future.key] = future, place
            future.add_done_callback(self.ready.put)

    def _width(self) -> int:
        """How many blocks are handed over at a time.

        **Raises** `Lost` where the scheduler is gone, or has fallen silent.
        """
        if self.client.status != "running":
            raise Lost("The scheduler no longer answers.")
        if self.crew is not None:
            return 2 * len(self.crew.processes)
        if time.monotonic() > self.asked + SILENCE:
            self.threads, self.asked = self._counted(), time.monotonic()
        return 2 * max(1, self.threads)

    def _counted(self) -> int:
        """How many threads a cluster has, which may grow and shrink."""
        try:
            return sum(self.client.sync(self.client.scheduler.ncores, callback_timeout=SILENCE).values())
        except (OSError, TimeoutError) as error:  # a connection that is closed is an OSError
            raise Lost(f"The scheduler no longer answers ({type(error).__name__}).") from None


def _result(future: Any) -> Block | str:
    """What came of a block, or why nothing did."""
    from concurrent.futures import CancelledError

    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        return future.result(timeout=2 * SILENCE)
    except KilledWorker:
        return f"{FAILURES} workers died over it; was there enough memory?"
    except (CancelledError, CommClosedError, TimeoutError) as error:
        raise Lost(f"The scheduler no longer answers ({type(error).__name__}).") from None
    except Exception as error:
        return told(error)


class Crew:
    """Processes that work for a scheduler; one that dies is replaced. They keep what they must in a `folder`."""

    def __init__(self, address: str, count: int, folder: str):
        self.address, self.folder, self.deaths = address, folder, 0
        self.processes = [self._hired() for _ in range(count)]

    def _hired(self) -> "subprocess.Popen[bytes]":
        settings = {
            **one_thread(),
            "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical",
            "DASK_TEMPORARY_DIRECTORY": self.folder,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),  # where the user's modules are
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tokenfield.sweeps.worker", self.address, str(os.getpid())],
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the sweep, which tells its workers
        )

    def tend(self) -> None:
        """Replace those who have died.

        **Raises** `Lost` where they die again and again, and nothing comes of it.
        """
        dead = [one for one in self.processes if one.poll() is not None]
        self.deaths += len(dead)
        if self.deaths > HOPELESS * len(self.processes):
            raise Lost(f"{self.deaths} workers died one after another, and no group was finished between.")
        self.processes = [self._hired() if one in dead else one for one in self.processes]

    def dismiss(self) -> None:
        for one in self.processes:
            one.kill()
        for one in self.processes:
            one.wait()


@contextlib.contextmanager
def _own(count: int) -> Iterator[tuple[Any, Crew]]:
    """A scheduler in this process, and workers for it."""
    from distributed import Client, LocalCluster

    scheduler: Any
    with (
        tempfile.TemporaryDirectory(prefix="tokenfield-", ignore_cleanup_errors=True) as folder,
        LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        ) as scheduler,
    ):
        crew = Crew(scheduler.scheduler_address, count, folder)
        try:
            with Client(scheduler, set_as_default=False) as client:
                yield client, crew
        finally:
            crew.dismiss()


@contextlib.contextmanager
def _known(address: str) -> Iterator[Any]:
    """A client of a scheduler that is there."""
    from distributed import Client

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as apart:  # a notebook has a loop in this thread already
            kind = apart.submit(asyncio.run, _identity(address)).result()
        client = Client(address, timeout=ANSWER, set_as_default=False) if kind == "Scheduler" else None
    except (OSError, TimeoutError, ValueError, ImportError) as error:
        raise InputError(
            f"The scheduler {address} does not answer ({type(error).__name__}). Is the address right, as in tcp://10.0.0.5:8786?"
        ) from None
    if client is None:
        raise InputError(f"At {address} there is a {kind} of Dask, but no scheduler. Give the scheduler's address.")
    try:
        if not client.nthreads():
            raise InputError(f"The scheduler {address} has no workers. Start some: dask worker {address}")
        try:
            client.submit(_version, pure=False).result(timeout=60)
        except Exception as error:
            raise InputError(
                f"The workers of {address} cannot run tokenfield ({type(error).__name__}: {short(str(error), 120)}). Is it "
                "installed there, in the same version?"
            ) from None
        yield client
    finally:
        client.close(timeout=PARTING)


async def _identity(address: str) -> str:
    """What there is at an address: "Scheduler" or "Worker". Dask's own client waits for ever where somebody listens and is mute."""
    from distributed.comm import connect
    from distributed.security import Security

    async def asked() -> str:
        comm = await connect(address, timeout=ANSWER, **Security().get_connection_args("client"))
        try:
            await comm.write({"op": "identity"})
            return str((await comm.read())["type"])
        finally:
            comm.abort()

    return await asyncio.wait_for(asked(), ANSWER)


def _version() -> str:
    import tokenfield

    return tokenfield.__version__


def _dashboard(client: Any) -> str:
    try:
        return client.dashboard_link or "none"
    except (KeyError, ValueError, AttributeError):
        return "none (install bokeh)"


def _refuse_without_dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError(
            "Workers need Dask: pip install 'tokenfield[sweep]'. Without it, workers=0 computes in this process."
        ) from None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Dask tells of every worker that dies; the sweep tells what matters itself. (Some of its loggers have levels of their own.)"""
    names = ["distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))]
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    try:
        for logger in before:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
