"""An order book by price from one snapshot and the diffs around it, after the venue's own rule.

The rule (spot; futures in brackets): keep diffs until the snapshot is there, L = its `lastUpdateId`. Drop
diffs with u <= L [u < L]. The first one applied must have U <= L+1 <= u [U <= L <= u], and from then on each
U is the previous u + 1 [each pu is the previous u]. Quantities are absolute; zero removes the level.
"""

import heapq

from values import NotDecimal, decimal

BID, ASK = 'B', 'A'


class BookError(Exception):
    """The recording does not give a whole book."""


class Level:
    """One price of one side: the venue's texts and when the level was last set (epoch ns)."""

    __slots__ = ('price', 'size', 'set_ns')

    def __init__(self, price, size, set_ns):
        self.price, self.size, self.set_ns = price, size, set_ns


class Side:
    """Levels by price text, with the best price at hand."""

    def __init__(self, sign):
        self.sign = sign  # +1: lowest first (asks); -1: highest first (bids)
        self.levels = {}  # price text -> Level
        self.text_of = {}  # price as number -> its text
        self.heap = []  # sign * price; prices that are gone are dropped when they come to the top
        self.decimals = None

    def set(self, price, size, set_ns):
        number = self._number(price)
        if decimal(size)[0] == 0:
            if self.levels.pop(price, None):
                del self.text_of[number]
            return
        if price not in self.levels:  # else the heap has it
            heapq.heappush(self.heap, self.sign * number)
            self.text_of[number] = price
        self.levels[price] = Level(price, size, set_ns)

    def best(self):
        """The best Level, None if the side is empty."""
        while self.heap and self.sign * self.heap[0] not in self.text_of:
            heapq.heappop(self.heap)
        return self.levels[self.text_of[self.sign * self.heap[0]]] if self.heap else None

    def _number(self, price):
        # Keys are price texts; two texts for one price would make two levels of one.
        number, decimals = decimal(price)
        if self.decimals is None:
            self.decimals = decimals
        if decimals != self.decimals:
            raise BookError(
                'price %s has %d decimals, others of this instrument have %d'
                % (price, decimals, self.decimals)
            )
        return number


class Book:
    """`futures` picks the rule. After each applied message `applied(book)` is called, if given."""

    def __init__(self, futures, applied=None):
        self.futures = futures
        self.sides = {BID: Side(-1), ASK: Side(1)}
        self.snapshot_id = None  # L
        self.last_id = None  # u of the last applied diff
        self.early = []  # diffs before the snapshot
        self.applied = applied or (lambda book: None)

    def on_snapshot(self, last_update_id, bids, asks, set_ns):
        if self.snapshot_id is not None:
            raise BookError('a second snapshot: the mapping does not say what it means')
        self.snapshot_id = last_update_id
        self._apply(bids, asks, set_ns)
        early, self.early = self.early, []
        for diff in early:
            self.on_diff(diff)

    def on_diff(self, diff):
        """`diff` is the venue's depthUpdate; levels are stamped with its event time E (ms)."""
        if self.snapshot_id is None:
            self.early.append(diff)
        elif self._joins(diff):
            self.last_id = diff['u']
            self._apply(diff['b'], diff['a'], diff['E'] * 1_000_000)

    def _joins(self, diff):
        first, last, wanted = diff['U'], diff['u'], self.snapshot_id + (0 if self.futures else 1)
        if self.last_id is None:
            if last < wanted:
                return False  # older than the snapshot
            if first > wanted:
                raise BookError(
                    'updates between snapshot %d and the first diff (U %d) are missing'
                    % (self.snapshot_id, first)
                )
            return True
        follows = diff['pu'] == self.last_id if self.futures else first == self.last_id + 1
        if not follows:
            raise BookError(
                'gap in the diffs: u %d, then U %d, pu %s' % (self.last_id, first, diff.get('pu'))
            )
        return True

    def _apply(self, bids, asks, set_ns):
        try:
            for side, entries in ((BID, bids), (ASK, asks)):
                for price, size in entries:
                    self.sides[side].set(price, size, set_ns)
        except NotDecimal as e:
            raise BookError(str(e))
        self.applied(self)

    def end(self):
        """Says whether the recording gave a book at all."""
        if self.snapshot_id is None and self.early:
            raise BookError('%d diffs and no snapshot' % len(self.early))
