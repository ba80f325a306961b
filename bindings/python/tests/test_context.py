"""Contexts: settings, errors, threads, event loops."""

import asyncio
import pathlib
import resource
import signal
import tempfile
import threading
import time
import unittest

import place
import tickcast
import tickcast.aio


class Settings(unittest.TestCase):
    def test_a_wrong_setting_is_told_with_the_nearest_name(self):
        with self.assertRaisesRegex(tickcast.ConfigError, 'ttl'):
            tickcast.Context(tll=4)
        with self.assertRaisesRegex(tickcast.ConfigError, '/nonexistent.toml'):
            tickcast.Context('/nonexistent.toml')

    def test_settings_stand_over_the_file(self):
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as file:
            file.write('[messaging]\nrequest_tcp_port_low = 40001\n')
            file.flush()
            with self.assertRaisesRegex(tickcast.ConfigError, 'request_tcp_port_low'):
                tickcast.Context(file.name)
            tickcast.Context(file.name, **place.settings()).close()
            tickcast.Context(pathlib.Path(file.name), **place.settings()).close()

    def test_settings_may_be_truths_and_lists(self):
        with tickcast.Context(
            **place.settings(), **{'lbtrm.send_naks': False}, source_transport=['a* = lbtrm', 'b = lbtrm']
        ):
            pass
        with self.assertRaisesRegex(tickcast.ConfigError, 'lbtrm.send_naks'):
            tickcast.Context(**{'lbtrm.send_naks': 3})

    def test_settings_of_a_section_may_be_a_dictionary(self):
        sections = {}
        for key, value in place.settings().items():
            section, _, name = key.rpartition('.')
            sections.setdefault(section, {})[name] = value
        general = sections.pop('')
        with tickcast.Context(**general, **sections, recovery={'late_join': True}):
            pass
        with self.assertRaisesRegex(tickcast.ConfigError, 'lbtrm.send_naks'):
            tickcast.Context(lbtrm={'send_naks': 3})

    def test_a_former_name_is_refused_with_the_present_one(self):
        with self.assertRaisesRegex(tickcast.ConfigError, '`transport_lbtrm_send_naks` is now `lbtrm.send_naks`'):
            tickcast.Context(transport_lbtrm_send_naks=False)

    def test_changed_keys_are_read_again_and_bad_ones_are_told(self):
        with tempfile.NamedTemporaryFile('w') as file:

            def write(text):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()

            good = '1 000102030405060708090a0b0c0d0e0f'
            write(good)
            keys = {'lbtrm.authentication_key_file': file.name, 'security_reload_interval_us': 10_000}
            with tickcast.Context(**place.settings(), **keys) as context:
                write('2 no secret')
                notice = next(event for event in context.events(place.WATCHDOG_S) if event.KIND == 'security_notice')
                self.assertEqual(notice.what, 'reload_failed')
                self.assertIn(file.name, notice.text)
                with self.assertRaisesRegex(tickcast.TransportError, file.name):
                    context.reload_security()
                write(good)
                context.reload_security()

    def test_an_unknown_transport_is_refused_with_those_there_are(self):
        with tickcast.Context(**place.settings()) as context:
            with self.assertRaisesRegex(tickcast.ConfigError, 'lbtrm'):
                context.source('py.x', transport='pigeon')

    def test_counters_that_cannot_be_published_are_warned_of(self):
        with self.assertWarnsRegex(RuntimeWarning, 'cannot publish counters in /nowhere'):
            tickcast.Context(**place.settings(), counters_directory='/nowhere').close()

    def test_all_errors_are_of_one_class(self):
        for name in ('ConfigError', 'TransportError', 'WouldBlockError', 'MessageTooLongError', 'ClosedError', 'ForkedError', 'LimitError'):
            self.assertTrue(issubclass(getattr(tickcast, name), tickcast.TickcastError), name)

    def test_what_is_closed_says_so_and_closing_again_is_nothing(self):
        context = tickcast.Context(**place.settings())
        source, receiver = context.source('py.x'), context.receiver('py.x')
        context.close()
        context.close()
        source.close()
        receiver.close()
        self.assertTrue(context.is_closed)
        for call in (context.poll, context.wait, context.fileno, lambda: source.send(b''), lambda: source.request(b''),
                     lambda: context.source('y'), lambda: context.receiver('y'), lambda: context.prefix_receiver('y'),
                     lambda: context.pattern_receiver('y'), context.drain):
            with self.assertRaises(tickcast.ClosedError):
                call()

    def test_a_context_waits_though_the_process_is_out_of_descriptors(self):
        with tickcast.Context(**place.settings()) as context:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                self.assertEqual([context.wait(0.001) for _ in range(3)], [[]] * 3)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_a_message_above_the_limit_is_refused(self):
        with tickcast.Context(**place.settings()) as context:
            with self.assertRaises(tickcast.MessageTooLongError):
                context.source('py.x').send(bytes(65 << 20))

    def test_a_source_that_is_faster_than_its_limits_is_told(self):
        limit = {
            'lbtrm.data_rate_limit_bits_per_second': 1_000_000,
            'lbtrm.retransmit_rate_limit_bits_per_second': 100_000,
        }
        with tickcast.Context(**place.settings(), **limit) as context:
            source = context.source('py.x')
            with self.assertRaises(tickcast.WouldBlockError):
                while True:
                    source.send(bytes(60000))
            notices = (e for e in context.events(timeout=place.WATCHDOG_S) if e.KIND == 'source_notice')
            self.assertEqual(next(notices).what, 'wake_up')


class Threads(place.Pair):
    def test_one_thread_sends_while_another_waits(self):
        got = []

        def receive():
            for event in self.hearer.events(timeout=place.WATCHDOG_S):
                if event.KIND == 'message':
                    got.append(bytes(event))
                    if event.payload == b'end':
                        return

        thread = threading.Thread(target=receive, daemon=True)
        driver = threading.Thread(target=lambda: [None for _ in self.sender.events(timeout=None)], daemon=True)
        thread.start()
        driver.start()
        for i in range(100):
            self.source.send(b'%d' % i, flush=True)
        self.source.send(b'end', flush=True)
        thread.join(place.WATCHDOG_S)
        self.assertEqual(got, [b'%d' % i for i in range(100)] + [b'end'])
        self.sender.close()
        driver.join(place.WATCHDOG_S)
        self.assertFalse(driver.is_alive())

    def test_the_interpreter_goes_on_while_a_thread_waits(self):
        def turns_meanwhile():
            turns, is_over = 0, threading.Event()
            thread = threading.Thread(target=lambda: (self.hearer.wait(1.0), is_over.set()), daemon=True)
            thread.start()
            while not is_over.is_set() and turns < place.WATCHDOG_S * 1000:
                turns += 1
                time.sleep(0.001)
            place.join(thread)
            return turns

        # A machine that stands still may take a second or two from it; an interpreter that is held takes all of them.
        self.assertTrue(any(turns_meanwhile() > 10 for _ in range(30)))

    def test_a_signal_ends_a_wait(self):
        class Rung(Exception):
            pass

        def ring(*_):
            raise Rung

        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with self.assertRaises(Rung):
            for _ in self.hearer.events():
                pass


class Handlers(place.Pair):
    def test_a_handler_hears_what_it_has_a_method_for(self):
        test = self

        class Handler:
            def __init__(self):
                self.heard = []

            def on_message(self, message):
                self.heard.append(bytes(message))
                if message.payload == b'go on':
                    test.source.send(b'sent by a handler', flush=True)
                elif message.payload == b'sent by a handler':
                    test.hearer.close()

        self.source.send(b'go on', flush=True)
        handler = Handler()
        self.hearer.run(handler, timeout=place.WATCHDOG_S)
        self.assertEqual(handler.heard, [b'go on', b'sent by a handler'])


class Asyncio(place.Pair):
    def test_messages_come_while_other_tasks_run(self):
        async def receive():
            got = []
            async for event in tickcast.aio.events(self.hearer):
                if event.KIND == 'message':
                    got.append(bytes(event))
                    if len(got) == 50:
                        return got

        async def send():
            for i in range(50):
                self.source.send(b'%d' % i, flush=True)
                await asyncio.sleep(0.001)

        async def main():
            drive = asyncio.ensure_future(tickcast.aio.run(self.sender, object()))
            got, _ = await asyncio.wait_for(asyncio.gather(receive(), send()), place.WATCHDOG_S)
            drive.cancel()
            return got

        self.assertEqual(asyncio.run(main()), [b'%d' % i for i in range(50)])

    def test_an_iteration_ends_when_the_context_is_closed(self):
        async def main():
            asyncio.get_running_loop().call_later(0.1, self.hearer.close)
            return [event.KIND async for event in tickcast.aio.events(self.hearer)]

        self.assertNotIn('message', asyncio.run(main()))


if __name__ == '__main__':
    unittest.main()
