"""Images on disk: a source distributor that is started again has its items, Suspect, until a provider publishes them."""

import os
import shutil
import stat
import struct
import subprocess
import unittest
import zlib

import rssl_bytes as rssl
from daemons import binary
from dialled_provider import DialledProvider
from java_tools import dialled, numbered
from process import wait_until
from rssl_clients import RsslConsumer
from test_providers import BID, FIRST, NEXT_PRICE, OK, OPEN, PRICE, SECOND, SUSPECT, Published, image

FROM_EARLIER_RUN = 'saved by an earlier run: no provider has published the item since'


class Saved(Published):
    def sets(self):
        return {
            'source_distributor.saved_images.file': '"%s"' % self.path,
            'source_distributor.saved_images.interval_ms': 100,
        }

    def setUp(self):
        self.path = os.path.join(self.directory, self.id().rpartition('.')[2] + '.saved')

    def start(self, number, name='distributor'):
        sets = {
            **numbered('NI_PUB', number),
            'source_distributor.settle_time_ms': self.SETTLE_MS,
            **self.sets(),
        }
        return self.system_.source_distributor(sets=sets, name=name)

    def written(self, messages):
        """A file of so many messages is on the disk."""
        value = lambda: self.distributor.metrics()['distributor_saved_images_messages']
        wait_until(lambda: value() == messages, lambda: '%d messages, not %d' % (value(), messages))

    def die_and_restart(self):
        """Both servers and the provider."""
        self.distributor.kill()
        self.p2ps.kill()
        self.provider_.close()
        self.distributor.restart()
        self.p2ps.restart()

    def publish_two(self):
        self.begin()
        self.provider_ = self.provider(image(b'NI.1', -1), image(b'NI.2', -2))
        self.written(3)

    def client(self, *requests):
        """As `consumer`, of a service that is down."""
        listed = lambda: [known['name'] for known in (self.p2ps.status() or {}).get('services', ())]
        wait_until(lambda: listed() == ['NI_PUB'], lambda: 'services: %s' % listed(), [self.p2ps])
        consumer = RsslConsumer(self.p2ps.port).wait_count(1, 1)
        self.addCleanup(consumer.close)
        consumer.send(*requests)
        return consumer

    def change(self, change):
        """The file with other bytes before its sum, which is right again."""
        with open(self.path, 'rb') as f:
            body = bytearray(f.read()[:-4])
        change(body)
        with open(self.path, 'wb') as f:
            f.write(body + struct.pack('<I', zlib.crc32(body)))

    def test_items_are_suspect_with_their_images_until_they_are_published(self):
        self.publish_two()
        self.die_and_restart()
        self.assertEqual(self.distributor.metrics()['distributor_saved_images_messages_restored'], 3)
        consumer = self.client(rssl.item_request(b'NI.1', FIRST), rssl.item_request(b'NI.2', SECOND))
        for stream in (FIRST, SECOND):
            self.wait_state(consumer, OPEN, SUSPECT, stream=stream)
            last = [message for message in consumer.messages if message.stream == stream][-1]
            self.assertEqual((last.kind, last.text), ('REFRESH', FROM_EARLIER_RUN))
            self.assertIn(PRICE[BID], last.data)
        self.provider(rssl.item_refresh(b'NI.1', -1, NEXT_PRICE))
        self.wait_state(consumer, OPEN, OK)
        self.assertEqual(self.states(consumer, SECOND)[-1:], [(OPEN, SUSPECT)])

    def test_what_is_restored_is_saved_again(self):
        self.publish_two()
        self.die_and_restart()
        self.distributor.wait_count('distributor_saved_images_written_total', 2)
        self.distributor.kill()
        self.distributor.restart()
        self.assertEqual(self.distributor.metrics()['distributor_saved_images_messages_restored'], 3)

    def test_a_file_that_is_damaged_or_old_is_not_used_and_is_replaced(self):
        self.publish_two()
        for change, said in (
            (lambda body: body.__setitem__(slice(8, 16), b'\0' * 8), 'they are too old'),
            (lambda body: body.__setitem__(7, body[7] ^ 3), 'it is of version 2, this program reads 1'),
            (lambda body: body.__delitem__(slice(-20, None)), 'saved images are not used'),
        ):
            with self.subTest(said):
                self.distributor.kill()
                self.change(change)
                self.distributor.restart()
                self.distributor.wait_says(said)
                self.assertEqual(self.distributor.metrics()['distributor_saved_images_messages_restored'], 0)
                provider = self.provider(image(b'NI.1', -1), image(b'NI.2', -2))
                self.written(3)
                provider.close()

    def test_a_client_that_was_there_keeps_newer_values_than_those_saved(self):
        self.publish_two()
        consumer = self.consumer(rssl.item_request(b'NI.1', FIRST))
        self.wait_state(consumer, OPEN, OK)
        saved = self.path + '.kept'
        shutil.copy(self.path, saved)
        self.provider_.send(rssl.update_of(-1, rssl.field_list(NEXT_PRICE)))
        self.wait_updates(consumer, 1)
        self.distributor.kill()
        self.wait_state(consumer, OPEN, SUSPECT)
        self.provider_.close()
        shutil.move(saved, self.path)
        self.distributor.restart()
        told = lambda: [m.text for m in consumer.messages if m.stream == FIRST and m.kind == 'STATUS']
        consumer.wait(lambda: 'waiting for the provider to publish the item' in told(), 'the item is waited for')
        # The service is up before the item is published.
        provider = self.provider()
        self.system_.wait_serving(self.p2ps, 'NI_PUB')
        stranger = self.consumer(rssl.item_request(b'NI.2', SECOND))
        self.wait_state(stranger, OPEN, SUSPECT, stream=SECOND)
        images = lambda: [m for m in consumer.messages if m.stream == FIRST and m.kind == 'REFRESH']
        self.assertEqual(len(images()), 1, 'no older image')
        provider.send(rssl.item_refresh(b'NI.1', -1, NEXT_PRICE))
        self.wait_state(consumer, OPEN, OK)
        self.assertIn(NEXT_PRICE[BID], images()[-1].data)

    def test_a_saved_service_may_become_one_of_an_interactive_provider(self):
        self.publish_two()
        self.distributor.kill()
        self.provider_.close()
        provider = DialledProvider()
        self.addCleanup(provider.close)
        sets = {**self.sets(), **dialled('one', provider.port)}
        self.distributor = self.system_.source_distributor(sets=sets, name='interactive')
        dialler = provider.accept().serve()
        self.addCleanup(dialler.close)
        consumer = self.consumer(rssl.item_request(b'NI.2', SECOND))
        request = dialler.wait('REQUEST', rssl.MARKET_PRICE)
        dialler.send(rssl.item_refresh(b'NI.2', request.stream, NEXT_PRICE, flags=0x68))
        self.wait_state(consumer, OPEN, OK, stream=SECOND)

    def refused(self, path):
        """What is said at the start about a file."""
        sets = {**self.sets(), 'source_distributor.saved_images.file': '"%s"' % path}
        sets['source_distributor.provider_port'] = 0
        words = [word for key, value in sets.items() for word in ('--set', '%s=%s' % (key, value))]
        ended = subprocess.run([binary(), 'source-distributor', *words], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(path, ended.stderr)
        return ended.stderr

    def test_what_is_no_file_of_saved_images_is_not_replaced(self):
        os.mkfifo(self.path + '.pipe')
        os.mkdir(self.path + '.folder')
        for path in (self.path + '.pipe', self.path + '.folder'):
            self.assertIn('no regular file', self.refused(path))
        os.mkfifo(self.path + '.lock')
        self.assertIn('no regular file', self.refused(self.path))
        other = self.path + '.toml'
        with open(other, 'w') as f:
            f.write('[source_distributor]\n')
        self.assertIn('it is no file of saved images, and is not replaced', self.refused(other))
        with open(other) as f:
            self.assertEqual(f.read(), '[source_distributor]\n')

    def test_links_stay_and_nobody_else_can_read_the_file(self):
        folder, link = self.path + '.disk', self.path
        os.mkdir(folder)
        self.path = os.path.join(folder, 'images')
        os.symlink(os.path.join(os.path.basename(folder), 'images'), link)
        precious = self.path + '.precious'
        with open(precious, 'w') as f:
            f.write('of somebody else')
        os.symlink(precious, self.path + '.new')
        real, self.path = self.path, link
        self.publish_two()
        self.assertTrue(os.path.islink(link))
        self.assertEqual(stat.S_IMODE(os.stat(real).st_mode), 0o600)
        with open(precious) as f:
            self.assertEqual(f.read(), 'of somebody else')

    def is_blocked(self):
        try:
            os.mkdir(self.path + '.new')
        except FileExistsError:
            return False
        return True

    def test_a_disk_that_cannot_be_written_costs_the_file_alone_and_is_said_once(self):
        self.publish_two()
        consumer = self.consumer(rssl.item_request(b'NI.1', FIRST))
        self.wait_state(consumer, OPEN, OK)
        with open(self.path, 'rb') as f:
            before = f.read()
        # What is written beside the file cannot be, as something stands in the way.
        wait_until(self.is_blocked, 'between two files')
        failures = lambda: self.distributor.metrics()['distributor_saved_images_failures_total']
        wait_until(lambda: failures() >= 3, lambda: '%d failures' % failures(), [self.distributor])
        self.provider_.send(rssl.update_of(-1, rssl.field_list(NEXT_PRICE)))
        self.wait_updates(consumer, 1)
        self.assertEqual(self.distributor.log().count('images cannot be saved'), 1)
        with open(self.path, 'rb') as f:
            self.assertEqual(len(f.read()), len(before))
        os.rmdir(self.path + '.new')
        self.distributor.wait_says('images are saved again')

    def test_two_source_distributors_do_not_share_a_file(self):
        self.publish_two()
        self.assertIn('another process saves its images there', self.refused(self.path))


if __name__ == '__main__':
    unittest.main()
