"""Holds the two views of one recording against each other: the rebuilt book and the venue's own best quotes.

Both streams carry the venue's update ids. After a diff that ends with update u, the best levels of the book
must equal the last best quote with an id not above u, prices and sizes. The quotes may lie later in the file
than the diff, so the comparison runs when everything is read. A book that is crossed after any diff is an
error in any case.
"""

import bisect

from book import ASK, BID
from values import decimal, in_one_scale

SHOWN_MAX = 5


class SelfCheck:
    def __init__(self):
        self.quote_ids, self.quotes = [], []
        self.books = []  # (update id, ((bid price, size), (ask price, size)))
        self.problems = []
        self.problem_count = 0
        self.compared_count = 0

    def on_quote(self, update_id, quote):
        if self.quote_ids and update_id < self.quote_ids[-1]:
            self._problem('best quote %d comes after %d' % (update_id, self.quote_ids[-1]))
            return
        self.quote_ids.append(update_id)
        self.quotes.append(((quote['b'], quote['B']), (quote['a'], quote['A'])))

    def on_book(self, book):
        """To be called after each message applied to the book."""
        bid, ask = book.sides[BID].best(), book.sides[ASK].best()
        if bid and ask and _crossed(bid.price, ask.price):
            self._problem(
                'the book is crossed after update %s: %s / %s' % (book.last_id, bid.price, ask.price)
            )
        if book.last_id is not None and bid and ask:
            self.books.append((book.last_id, ((bid.price, bid.size), (ask.price, ask.size))))

    def finish(self):
        """Compares, and returns the texts of what is wrong (the first few, then a count)."""
        for update_id, best in self.books:
            i = bisect.bisect_right(self.quote_ids, update_id) - 1
            if i < 0:
                continue  # no best quote yet
            self.compared_count += 1
            if self.quotes[i] != best:
                self._problem(
                    'after update %d the book says %s, best quote %d says %s'
                    % (update_id, best, self.quote_ids[i], self.quotes[i])
                )
        more = self.problem_count - len(self.problems)
        return self.problems + (['and %d more' % more] if more else [])

    def _problem(self, text):
        self.problem_count += 1
        if len(self.problems) < SHOWN_MAX:
            self.problems.append(text)


def _crossed(bid, ask):
    bid, ask = in_one_scale(decimal(bid), decimal(ask))
    return bid >= ask
