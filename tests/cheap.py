"""A bound on the CPU time of what took seconds, or grew with the square of its input, before it was mended."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cheap(seconds: float) -> Iterator[None]:
    """Fails if what stands inside takes as much CPU time of this process or more.

    The collector of garbage rests meanwhile: a look at all that is loaded for some ten thousand tests takes most of a
    second on a busy machine, and would be counted to whoever makes the next object.
    """
    gc.disable()
    try:
        began = time.process_time()
        yield
        took = time.process_time() - began
    finally:
        gc.enable()
    assert took < seconds, f"{took:.3f} s of CPU time; less than {seconds} s was expected"
