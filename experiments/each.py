"""The same question about many things, several at a time, each in a process of one thread."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import active_children, get_context
from typing import TypeVar

from benchmarks.threads import limited

__all__ = ["each"]

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def each(
    ask: Callable[[Thing], Answer], things: Sequence[Thing], processes: int
) -> Iterator[tuple[Thing, Answer | None, Exception | None]]:
    """Each thing with the answer, or with what went wrong, as they end.

    Args:
        ask: may be sent to another process, as things and answers may.
        things: in the order in which they are begun.
        processes: at a time; with one, all is done in this process.
    """
    if processes == 1:
        for thing in things:
            try:
                found, error = _on_one_thread(ask, thing), None
            except Exception as failure:  # one failure must not end the others
                found, error = None, failure
            yield thing, found, error
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        asked = {pool.submit(partial(_on_one_thread, ask), thing): thing for thing in things}
        try:
            for future in as_completed(asked):
                error = future.exception()
                if error is None:
                    yield asked[future], future.result(), None
                elif isinstance(error, Exception):
                    yield asked[future], None, error
                else:
                    raise error
        except BaseException:
            # Else they would go on to the end of their things, whose answers nobody reads.
            for worker in active_children():
                worker.terminate()
            raise


def _on_one_thread(ask: Callable[[Thing], Answer], thing: Thing) -> Answer:
    with limited(1):
        return ask(thing)
