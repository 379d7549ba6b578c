"""What is set before JAX starts: double precision, and a folder for compiled programs.

JAX keeps compiled programs in a folder of the user's cache, so that the first run of a process does not compile what an earlier
process has compiled. TOKENFIELD_CACHE names another folder, or is "off". Whoever has set JAX_COMPILATION_CACHE_DIR, or JAX's
own setting, decides for themselves; so does whoever sets JAX_ENABLE_X64. A process that cannot write to the folder goes on
without it.
"""

import os
import sys
from pathlib import Path
from typing import Any

SETTING = "TOKENFIELD_CACHE"
SECONDS = 0.02
"""Programs that compile faster than this are not kept."""


def set_up() -> None:
    """Settle both for a JAX that is to be imported, or has been."""
    _set("jax_enable_x64", "JAX_ENABLE_X64", True)
    folder = None if _decided() else _folder()
    if folder is not None:
        _set("jax_compilation_cache_dir", "JAX_COMPILATION_CACHE_DIR", str(folder))
        _set("jax_persistent_cache_min_compile_time_secs", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", SECONDS)


def _set(name: str, variable: str, value: Any) -> None:
    """One of JAX's settings, unless its environment variable has been set."""
    if variable in os.environ:
        return
    if "jax" in sys.modules:
        sys.modules["jax"].config.update(name, value)
    else:
        os.environ[variable] = str(value)


def _decided() -> bool:
    """Whether the user has told JAX where to keep programs."""
    jax = sys.modules.get("jax")
    return "JAX_COMPILATION_CACHE_DIR" in os.environ or (
        jax is not None and jax.config.jax_compilation_cache_dir is not None
    )


def _folder() -> Path | None:
    """The folder for compiled programs, made if need be; None where it is off or cannot be written to."""
    import platformdirs

    asked = os.environ.get(SETTING, "")
    if asked.lower() in ("off", "0", "no", "none"):
        return None
    folder = Path(asked).expanduser() if asked else platformdirs.user_cache_path("tokenfield") / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
