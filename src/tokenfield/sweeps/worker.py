"""`python -m tokenfield.sweeps.worker ADDRESS PARENT`: a worker of a sweep's own cluster. It ends with the process that started it,
however that ends."""

import asyncio
import os
import sys
import threading
import time


def main(address: str, parent: int) -> None:
    """Work for a scheduler until it, or the process that started both, is gone."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    from distributed import Worker

    async def serve() -> None:
        async with Worker(address, nthreads=1, memory_limit=0, dashboard=False, host="127.0.0.1") as worker:
            await worker.finished()

    asyncio.run(serve())
    os._exit(0)  # whatever is being computed is of no use to anyone


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
