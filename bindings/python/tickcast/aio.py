"""Contexts in asyncio: the loop waits for the context's descriptor, no thread and no lock takes part.

    async for event in tickcast.aio.events(context):
        ...

A context is driven by one such iteration at a time. What other tasks send goes out with its next turn: they send with
`flush=True`, or call `context.flush()`, for it to go out at once.
"""

import asyncio

from tickcast import dispatch

LONGEST_S = 1.0  # a context that was closed meanwhile is noticed after this


async def events(context):
    """Events as they come, until the iteration is left or the context closed. Nothing is taken from the network before
    the events of the turn before have been taken: a slow consumer slows its sources, or loses, as elsewhere. Events that
    an iteration has not given out when it is left come with the next one."""
    left = context._left
    while left or not context.is_closed:
        if not left:
            left.extend(context.poll())
        has_events = bool(left)
        # What is not given out, because the iteration is left or its task cancelled, comes with the next one.
        while left:
            yield left.popleft()
        if has_events:
            await asyncio.sleep(0)
        elif not context.is_closed:
            await _something_to_do(context)


async def run(context, handler):
    """Calls `handler.on_message(event)` and so on for each event."""
    async for event in events(context):
        dispatch(event, handler)


async def _something_to_do(context):
    loop, descriptor = asyncio.get_running_loop(), context.fileno()
    readable = loop.create_future()
    loop.add_reader(descriptor, lambda: readable.done() or readable.set_result(None))
    due = context.until_wakeup()
    try:
        await asyncio.wait([readable], timeout=LONGEST_S if due is None else min(due, LONGEST_S))
    finally:
        loop.remove_reader(descriptor)
