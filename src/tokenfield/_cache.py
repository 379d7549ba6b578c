"""What is settled with JAX: double precision, and a folder for compiled programs.

JAX keeps compiled programs in a folder of the user's cache, so that the first run of a process does not compile what an earlier
process has compiled. TOKENFIELD_CACHE names another folder, or is "off". Whoever has set JAX_COMPILATION_CACHE_DIR, or JAX's
own setting, decides for themselves; so does whoever sets JAX_ENABLE_X64. A process that cannot write to the folder goes on
without it.
"""

import os
import sys
from pathlib import Path

SETTING = "TOKENFIELD_CACHE"
SECONDS = 0.02
"""Programs that compile faster than this are not kept."""


def use_double_precision() -> None:
    """For a JAX that is to be imported, or has been."""
    if "JAX_ENABLE_X64" in os.environ:
        return
    os.environ["JAX_ENABLE_X64"] = "1"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)


def keep_programs() -> None:
    """For this process, which has imported JAX; processes that it starts decide for themselves."""
    import jax

    folder = None if jax.config.jax_compilation_cache_dir is not None else _folder()  # pyright: ignore
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", SECONDS)


def _folder() -> Path | None:
    """The folder for compiled programs, made if need be; None where it is off or cannot be written to."""
    import platformdirs

    asked = os.environ.get(SETTING, "")
    if asked.lower() in ("off", "0", "no", "none"):
        return None
    try:
        folder = Path(asked).expanduser() if asked else platformdirs.user_cache_path("tokenfield") / "compiled"
        if not folder.is_absolute() and not asked:  # a user without a home
            return None
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
