"""`python -m tokenfield.sweeps.worker ADDRESS PARENT`: a worker of a sweep's own cluster. It ends with the process that started it,
however that ends."""

import asyncio
import os
import sys
import threading
import time
from typing import Any


def one_thread() -> dict[str, str]:
    """Settings with which a process that has not started JAX yet computes in one thread: workers share the cores among themselves,
    and sums are in one order however many they are."""
    return {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip(),
        "OMP_NUM_THREADS": "1",
        "PJRT_NPROC": "1",  # else parts of a program that do not need each other run side by side, for a third more of CPU time
    }


def main(address: str, parent: int) -> None:
    """Work for a scheduler until it, or the process that started both, is gone."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    from distributed import Worker

    async def serve() -> None:
        here: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}  # nobody else is to reach it
        async with Worker(address, nthreads=1, memory_limit=0, dashboard=False, **here) as worker:
            await worker.finished()

    asyncio.run(serve())
    os._exit(0)  # whatever is being computed is of no use to anyone


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
