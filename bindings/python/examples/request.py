"""Asks, again until somebody answers, and prints the answer: request.py TOPIC TEXT [KEY=VALUE]..."""

import asyncio
import sys

import tickcast
import tickcast.aio


async def answer(context):
    async for event in tickcast.aio.events(context):
        if isinstance(event, tickcast.Response):
            return bytes(event).decode()


async def main(topic, text, *settings):
    with tickcast.Context(**dict(setting.split('=', 1) for setting in settings)) as context:
        source = context.source(topic)
        while True:
            request = source.request(text.encode())
            try:
                return await asyncio.wait_for(answer(context), 0.5)
            except asyncio.TimeoutError:
                context.cancel_request(request)


print(asyncio.run(main(*sys.argv[1:])))
