"""Answers requests on a topic with their own text until one says "stop": respond.py TOPIC [KEY=VALUE]..."""

import sys

import tickcast

topic, *settings = sys.argv[1:]
with tickcast.Context(**dict(setting.split('=', 1) for setting in settings)) as context:
    context.receiver(topic)
    for event in context.events():
        if isinstance(event, tickcast.Message) and event.is_request:
            context.respond(event, event.payload)
            if event.payload == b'stop':
                break
    list(context.events(timeout=0.2))  # the last answer goes out
