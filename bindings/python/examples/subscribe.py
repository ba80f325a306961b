"""Prints the messages of a topic until a source has ended: subscribe.py TOPIC [KEY=VALUE]..."""

import sys

import tickcast

topic, *settings = sys.argv[1:]
with tickcast.Context(**dict(setting.split('=', 1) for setting in settings)) as context:
    context.receiver(topic)
    for event in context.events():
        if isinstance(event, tickcast.Message):
            print(event.sqn, bytes(event).decode())
        elif isinstance(event, tickcast.Loss):
            print(event.count, 'messages are lost, from', event.first)
        elif isinstance(event, tickcast.End):
            break
