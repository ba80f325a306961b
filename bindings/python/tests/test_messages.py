"""Messages and their bytes."""

import asyncio
import gc
import threading
import time
import unittest

import numpy
import tickcast
import place
import tickcast.aio
from place import WATCHDOG_S, Pair


class Messages(Pair):
    def test_what_is_sent_arrives_in_order_with_its_numbers_and_topic(self):
        sent = [b'a', b'', b'c' * 20000]
        numbers = [self.source.send(data, flush=True) for data in sent]
        got = self.messages(3)
        self.assertEqual([bytes(m) for m in got], sent)
        self.assertEqual([m.sqn for m in got], numbers)
        self.assertEqual({m.topic for m in got}, {self.topic})
        self.assertEqual({m.receiver_id for m in got}, {self.receiver.id})
        self.assertEqual([len(m) for m in got], [1, 0, 20000])

    def test_a_source_waits_for_its_receivers(self):
        self.assertIsNone(self.source.receivers)
        # Nobody drives the receiving context meanwhile.
        self.assertEqual(self.source.wait_for_receivers(1, timeout=0.05), 0)
        driver = threading.Thread(target=lambda: [None for _ in self.hearer.events(timeout=1)], daemon=True)
        driver.start()
        self.assertEqual(self.source.wait_for_receivers(1, timeout=WATCHDOG_S), 1)
        self.assertIsNone(self.source.receivers)
        self.source.watch_receivers()
        notices = (e for e in self.sender.events(timeout=WATCHDOG_S) if getattr(e, 'what', '') == 'receivers_changed')
        self.assertEqual(max(next(notices).receivers for _ in range(2)), 1)
        self.source.watch_receivers(False)
        place.join(driver)

    def test_whatever_shows_its_bytes_can_be_sent(self):
        numbers = numpy.arange(4, dtype='<u4')
        for data in (bytearray(b'array'), memoryview(b'xviewx')[1:-1], numbers):
            self.source.send(data)
        array, view, words = self.messages(3)
        self.assertEqual((bytes(array), bytes(view)), (b'array', b'view'))
        self.assertEqual(words.array('<u4').tolist(), [0, 1, 2, 3])

    def test_text_and_numbers_are_no_bytes(self):
        for data in ('text', 5, None):
            with self.assertRaises(TypeError):
                self.source.send(data)

    def test_a_view_cannot_be_written_and_outlives_message_and_context(self):
        self.source.send(bytes(range(100)), flush=True)
        (message,) = self.messages(1)
        view, array = message.payload, message.array()
        with self.assertRaises(TypeError):
            view[0] = 1
        with self.assertRaises(ValueError):
            array[0] = 1
        del message
        self.sender.close()
        self.hearer.close()
        gc.collect()
        junk = [bytes(100000) for _ in range(100)]
        self.assertEqual(bytes(view), bytes(range(100)))
        self.assertEqual(array.tolist(), list(range(100)))
        del junk

    def test_an_array_shares_the_memory_of_the_payload(self):
        self.source.send(bytes(64), flush=True)
        (message,) = self.messages(1)
        self.assertTrue(numpy.shares_memory(message.array(), numpy.frombuffer(message.payload, 'u1')))

    def test_the_edges_of_a_batch_are_told(self):
        self.source.send(b'1', batch='start')
        self.source.send(b'2')
        self.source.send(b'3', batch='end')
        self.assertEqual([m.batch for m in self.messages(3)], ['start', None, 'end'])
        with self.assertRaises(tickcast.ConfigError):
            self.source.send(b'', batch='middle')

    def test_the_end_of_a_source_is_told(self):
        self.source.send(b'last', flush=True)
        self.messages(1)
        self.sender.close()
        for event in self.hearer.events(timeout=WATCHDOG_S):
            if event.KIND == 'end':
                break
        self.assertEqual(event.reason, 'ended')


class Wildcards(Pair):
    def test_a_prefix_receives_all_topics_that_begin_with_it(self):
        receiver = self.hearer.prefix_receiver('py.wild.')
        sources = [self.sender.source('py.wild.%d' % i) for i in range(3)]
        self.drive_until(lambda events: sum(e.KIND == 'source' for e in events) == 3)
        for i, source in enumerate(sources):
            source.send(b'%d' % i)
        got = {m.topic: (bytes(m), m.receiver_id) for m in self.messages(3)}
        self.assertEqual(got, {'py.wild.%d' % i: (b'%d' % i, receiver.id) for i in range(3)})


    def test_a_pattern_receives_all_topics_in_which_it_is_found(self):
        with self.assertRaisesRegex(tickcast.ConfigError, r'py\.\('):
            self.hearer.pattern_receiver('py.(')
        receiver = self.hearer.pattern_receiver(r'^py\.pat\.[02]$|other')
        self.assertEqual(receiver.topic, r'^py\.pat\.[02]$|other')
        sources = [self.sender.source('py.pat.%d' % i) for i in range(3)] + [self.sender.source('an.other')]
        self.drive_until(lambda events: sum(e.KIND == 'source' for e in events) == 3)
        for i, source in enumerate(sources):
            source.send(b'%d' % i)
        got = {m.topic: (bytes(m), m.receiver_id) for m in self.messages(3)}
        wanted = {'py.pat.0': b'0', 'py.pat.2': b'2', 'an.other': b'3'}
        self.assertEqual(got, {topic: (payload, receiver.id) for topic, payload in wanted.items()})


class Requests(Pair):
    def test_a_request_is_answered_as_often_as_the_responder_likes(self):
        request = self.source.request(b'question')
        answered, answers = False, []
        for _ in range(6000):
            for event in self.hearer.wait(0.005):
                if event.KIND == 'message' and not answered:
                    self.assertTrue(event.is_request)
                    answered = True
                    self.hearer.respond(event, b'one')
                    self.hearer.respond(event, bytearray(b'two'))
            answers += [e for e in self.sender.wait(0.005) if e.KIND == 'response']
            if len(answers) == 2:
                break
        self.assertEqual([(e.request, bytes(e.payload)) for e in answers], [(request, b'one'), (request, b'two')])
        self.sender.cancel_request(request)

    def test_what_is_no_request_cannot_be_answered(self):
        self.source.send(b'statement', flush=True)
        (message,) = self.messages(1)
        self.assertFalse(message.is_request)
        with self.assertRaises(tickcast.ConfigError):
            self.hearer.respond(message, b'')


if __name__ == '__main__':
    unittest.main()


class Leaving(Pair):
    """An iteration over events that is left in the middle of a turn."""

    def setUp(self):
        super().setUp()
        for n in range(50):
            self.source.send(b'%d' % n)
        self.source.flush()

    def taken(self, take):
        """The messages that `take` takes with each call, until all are there."""
        until, got = time.monotonic() + WATCHDOG_S, []
        while len(got) < 50:
            self.assertLess(time.monotonic(), until, 'only %s' % got)
            got += take()
        return [int(bytes(event)) for event in got]

    def test_what_an_iteration_has_not_given_out_comes_with_the_next(self):
        def take():
            for event in self.hearer.events(timeout=0.1):
                if event.KIND == 'message':
                    return [event]
            return []

        self.assertEqual(self.taken(take), list(range(50)))

    def test_what_comes_behind_a_handler_s_exception_is_not_lost(self):
        class Handler:
            def __init__(self):
                self.got = []

            def on_message(self, message):
                self.got.append(message)
                raise ValueError('it goes on all the same')

        def take():
            handler = Handler()
            try:
                self.hearer.run(handler, timeout=0.1)
            except ValueError:
                pass
            return handler.got

        self.assertEqual(self.taken(take), list(range(50)))

    def test_polls_and_iterations_take_turns(self):
        def take():
            next(iter(event for event in self.hearer.events(timeout=0.1) if event.KIND == 'message'), None)
            due = self.hearer.until_wakeup()
            rest = [event for event in self.hearer.poll() if event.KIND == 'message']
            self.assertTrue(due == 0.0 or not rest)
            return rest

        until, got = time.monotonic() + WATCHDOG_S, []
        while not got:
            self.assertLess(time.monotonic(), until)
            got = [int(bytes(event)) for event in take()]
        self.assertEqual(got, list(range(got[0], got[0] + len(got))))

    def test_a_task_that_is_cancelled_loses_nothing(self):
        async def one(got):
            async for event in tickcast.aio.events(self.hearer):
                if event.KIND == 'message':
                    got.append(event)
                    await asyncio.sleep(3600)

        def take():
            async def cancelled():
                got = []
                task = asyncio.ensure_future(one(got))
                while not got and not task.done():
                    await asyncio.sleep(0.001)
                task.cancel()
                await asyncio.wait([task])
                return got

            return asyncio.run(asyncio.wait_for(cancelled(), WATCHDOG_S))

        self.assertEqual(self.taken(take), list(range(50)))
