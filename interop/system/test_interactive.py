"""Interactive providers, dialled by the source distributor, to consumers; both ends on the EMA library."""

import json

from interactive import NAMES, Interactive
from process import wait_until

# Options of the consumer for keys of one name, each of another item; the provider makes data of its own for each.
KEYS = (
    (),
    ('--name-type', '2'),
    ('--filter', '7'),
    ('--identifier', '-5'),
    ('--attrib', 'Place=NYC'),
    ('--name-type', '2', '--filter', '7', '--identifier', '-5', '--attrib', 'Place=NYC'),
)
# The last one asks over WebSocket.
JSON_KEY = ('--name-type', '3', '--filter', '1', '--identifier', '6', '--attrib', 'Place=LON')
# What each makes of the key, in the order of the options.
KEY_PARTS = (
    {},
    {'name_type': 2},
    {'filter': 7},
    {'identifier': -5},
    {'attributes': {'Place': 'NYC'}},
    {'name_type': 2, 'filter': 7, 'identifier': -5, 'attributes': {'Place': 'NYC'}},
    {'name_type': 3, 'filter': 1, 'identifier': 6, 'attributes': {'Place': 'LON'}},
)


class Chain(Interactive):
    """Provider -> source distributor -> P2PS -> consumer, and back."""

    @classmethod
    def scenario(cls):
        cls.begin()
        first, second = cls.watch('first'), cls.watch('second')
        for client in (first, second):
            wait_until(client.has_images, '%s has images' % client.name, [client, cls.distributor])
        cls.updates = cls.consume('updates', '--check-seq', '--updates', '10')
        cls.asked = cls.said('request')
        cls.missing = cls.consume('missing', '--expect-closed', 'NotFound', items=['NOPE'])
        cls.posts = cls.consume('posts', '--check-seq', '--post', '3', '--post-off-stream', '2', '--updates-after', '2')
        cls.generics = cls.consume('generics', '--generic', '3', items=['A'])
        cls.private = cls.consume('private', '--private', '--updates', '3', '--post', '2', items=['A', 'B'])
        cls.private_streams = cls.distributor.metrics()['distributor_private_streams']
        cls.keyed = [cls.consumed('keyed-%d' % at, *key, items=['A']) for at, key in enumerate(KEYS)]
        json_options, server = ('--websocket', 'tr_json2', *JSON_KEY), '127.0.0.1:%d' % cls.p2ps.websocket_port
        cls.keyed.append(cls.consumed('keyed-json', *json_options, items=['A'], server=server))
        cls.watchers = [(client.finish()[0], client.faults(), client.result) for client in (first, second)]
        cls.metrics = cls.distributor.metrics()
        closes = lambda: len(cls.said('close')) >= len(NAMES)
        wait_until(closes, 'the providers are told that nobody wants the items', [*cls.providers])
        wait_until(
            lambda: cls.distributor_status()['items'] == 0,
            lambda: 'nothing stays: %s' % cls.distributor_status(),
            [cls.distributor],
        )

    def test_images_are_right_and_updates_in_order(self):
        self.assert_ok(self.updates)
        for status, faults, result in self.watchers:
            self.assertEqual((status, faults), (0, {}), result and result['reasons'])

    def test_each_item_is_asked_for_once_and_the_load_is_shared(self):
        self.assertEqual(sorted(e['item'] for e in self.asked), list(NAMES))
        told = [[e['ev'] for e in map(json.loads, one.out().splitlines())] for one in self.providers]
        self.assertTrue(all(events.count('request') >= 2 for events in told), told)

    def test_an_unknown_item_is_not_found(self):
        self.assert_ok(self.missing)

    def test_posts_go_all_the_way_and_are_acknowledged(self):
        self.assert_ok(self.posts)
        sent = 5 * len(NAMES)
        self.assertEqual(self.posts[1]['posts']['acks'], sent)
        posts = self.said('post')
        self.assertEqual(len([e for e in posts if not e['on_stream']]), 2 * len(NAMES))
        self.assertEqual(self.metrics['distributor_acks_in_total'], sent)
        self.assertEqual(self.metrics['distributor_posts_outstanding'], 0)

    def test_generic_messages_come_back(self):
        self.assert_ok(self.generics)

    def test_private_streams_have_streams_of_their_own(self):
        self.assert_ok(self.private)
        self.assertEqual(sorted(e['item'] for e in self.said('request', private=True)), ['A', 'B'])
        self.assertEqual(self.private_streams, 0)

    def test_items_of_one_name_are_told_apart_by_their_whole_keys(self):
        requests = self.said('request', item='A', private=False)
        self.assertCountEqual([e['key'] for e in requests], KEY_PARTS, 'each is asked for once, with its key')
        for parts, (status, events) in zip(KEY_PARTS, self.keyed):
            with self.subTest(parts):
                self.assert_ok((status, events[-1], ()))
                refresh, final = [e for e in events if e['ev'] in ('refresh', 'final')]
                self.assertEqual(refresh['key'], parts, 'the consumer gets its key back')
                base = next(e['base'] for e in requests if e['key'] == parts)
                moved = final['fields']['22']['mantissa'] - base  # both in hundredths
                self.assertTrue(0 <= moved < 1000, '%s of another item than that of %s' % (final, base))
        self.assertEqual(len({e['base'] for e in requests}), len(KEY_PARTS))


class Failover(Interactive):
    """`kill -9` of providers: their items are suspect, and good again from the other, or when they are back."""

    @classmethod
    def scenario(cls):
        cls.begin()
        cls.client = cls.watch('client')
        wait_until(cls.client.is_good, 'the client has all', [cls.client])
        cls.moved = cls.episode(lambda: cls.providers[0].kill(), lambda: None)
        cls.after_one = cls.distributor.metrics()
        cls.gone = cls.episode(lambda: cls.providers[1].kill(), lambda: [p.start() for p in cls.providers])
        cls.end = cls.client.finish()[0]

    @classmethod
    def episode(cls, harm, mend):
        """The data states of each item from the harm until all is good again, with updates."""
        client = cls.client
        marks = {key: len(item.states) for key, item in client.look().items.items()}
        since = lambda: {key: item.states[marks[key] :] for key, item in client.look().items.items()}
        harm()
        wait_until(
            lambda: any('Suspect' in states for states in since().values()),
            lambda: 'something is suspect: %s' % since(),
            [client, cls.distributor],
        )
        mend()
        wait_until(client.is_good, lambda: 'all is good again: %s' % since(), [client, cls.distributor])
        updates = {key: item.updates for key, item in client.items.items()}
        flows = lambda: all(item.updates > updates[key] for key, item in client.look().items.items())
        wait_until(flows, 'updates of all items come again', [client, cls.distributor])
        return since()

    def test_the_items_of_a_lost_provider_move_to_the_other_one(self):
        changed = sorted(tuple(states) for states in self.moved.values())
        self.assertEqual(changed, [(), (), ('Suspect', 'Ok'), ('Suspect', 'Ok')], self.moved)
        self.assertEqual(self.after_one['distributor_items_lost_total'], 2)

    def test_without_any_provider_all_is_suspect_until_they_are_back(self):
        for key, states in self.gone.items():
            self.assertEqual((states[0], states[-1]), ('Suspect', 'Ok'), (key, states))

    def test_every_update_came_in_order(self):
        reasons = (self.client.result or {}).get('reasons')
        self.assertEqual((self.end, self.client.faults()), (0, {}), reasons)


class Refusals(Interactive):
    """Posts that the provider, or the configuration, refuses."""

    @classmethod
    def scenario(cls):
        cls.begin('--posts', 'DENIED_BY_SOURCE', '--rate', '0')
        cls.denied = cls.consume('denied', '--post', '2', '--expect-nack', 'DENIED_BY_SOURCE')
        cls.distributor.kill()
        cls.distributor = cls.dial(cls.ports, {'source_distributor.services.0.posts': 'cache'})
        cls.wait_ready(2)
        bid = ('--post-fields', '22=REAL:777:14')
        holder = cls.watch('holder')
        wait_until(holder.has_images, 'somebody wants the items all the time', [holder])
        cls.cached = cls.consume('cached', '--post', '2', '--post-off-stream', '1', *bid)
        cls.later = cls.consume('later', '--snapshot')
        cls.metrics = cls.distributor.metrics()

    def test_a_refusal_of_the_provider_comes_back(self):
        self.assert_ok(self.denied)
        self.assertEqual(self.denied[1]['posts']['nacks'], 2 * len(NAMES))

    def test_posts_to_the_cache_are_acknowledged_without_the_provider(self):
        self.assert_ok(self.cached)
        self.assertEqual(self.metrics['distributor_posts_cached_total'], 3 * len(NAMES))
        self.assertEqual(self.metrics['distributor_posts_out_total'], 0)
        self.assertEqual(len(self.said('post')), 2 * len(NAMES), 'the refused ones')

    def test_posts_to_the_cache_stay_in_the_images(self):
        self.assert_ok(self.later)
        bids = [image['fields']['22'] for image in self.later[2]]
        self.assertEqual([(bid['mantissa'], bid['hint']) for bid in bids], [(777, 14)] * len(NAMES))
