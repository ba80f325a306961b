from typing import AsyncIterator

from tickcast import Context, Event

LONGEST_S: float

def events(context: Context) -> AsyncIterator[Event]: ...
async def run(context: Context, handler: object) -> None: ...
