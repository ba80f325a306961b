"""Takes down messages at two points and writes both files: observe.py SENDER.obs RECEIVER.obs"""

import sys

import tickcast

sender = tickcast.Recorder('sender', 100_000)
receiver = tickcast.Recorder('receiver', 100_000)
for number in range(10_000):
    sender.record(tickcast.Recorder.id(1, number))
    # Here the message would travel.
    if number % 1000 != 999:
        receiver.record(tickcast.Recorder.id(1, number))
# After the run: it takes time.
for recorder, path in zip((sender, receiver), sys.argv[1:]):
    recorder.write(path)
    print(recorder.records, 'messages,', recorder.lost, 'without room')
