"""Best quote and last trade of one instrument as MarketPrice fields."""

from values import (
    date,
    decimal,
    enum,
    in_one_scale,
    ms_of_day,
    real,
    real_or_blank,
    rmtes,
    time,
    time_of_seconds,
    uint,
)

DSPLY_NAME, PROV_SYMB = 3, 3422
BID, ASK, BIDSIZE, ASKSIZE = 22, 25, 30, 31
QUOTIM, QUOTIM_MS, QUOTIM_NS, QUOTE_DATE = 1025, 3855, 14265, 3386
TRDPRC_1, TRDVOL_1, ACVOL_1, NUM_MOVES, PRCTCK_1, TRADE_ID = 6, 178, 32, 77, 14, 3900
SALTIM, SALTIM_MS, SALTIM_NS, TRADE_DATE = 379, 3854, 14266, 16

NO_TICK, UP, DOWN = 0, 1, 2


class Level1:
    """Takes quotes and trades in the order of the recording; `fields()` is the image after the last one."""

    def __init__(self, item, symbol):
        self.item, self.symbol = item, symbol
        self.quote = None
        self.quote_ns = None
        self.trade = None
        self.trade_count = 0
        self.volume = 0  # in units of 10**-volume_decimals
        self.volume_decimals = 0
        self.last_price = None  # (mantissa, decimals)
        self.tick = NO_TICK

    def on_quote(self, quote, event_ns):
        self.quote, self.quote_ns = quote, event_ns

    def on_trade(self, trade):
        self.trade = trade
        self.trade_count += 1
        self._add_volume(*decimal(trade['q']))
        self._turn_tick(decimal(trade['p']))

    def _add_volume(self, size, decimals):
        common = max(decimals, self.volume_decimals)
        self.volume = self.volume * 10 ** (common - self.volume_decimals) + size * 10 ** (common - decimals)
        self.volume_decimals = common

    def _turn_tick(self, price):
        if self.last_price is not None:
            now, before = in_one_scale(price, self.last_price)
            if now != before:
                self.tick = UP if now > before else DOWN
        self.last_price = price

    def fields(self):
        fields = {DSPLY_NAME: rmtes(self.item), PROV_SYMB: rmtes(self.symbol)}
        if self.quote is not None:
            fields.update(self._quote_fields())
        if self.trade is not None:
            fields.update(self._trade_fields())
        return fields

    def _quote_fields(self):
        q, ns = self.quote, self.quote_ns
        return {
            BID: real_or_blank(q['b']),
            BIDSIZE: real_or_blank(q['B']),
            ASK: real_or_blank(q['a']),
            ASKSIZE: real_or_blank(q['A']),
            QUOTIM: time_of_seconds(ns),
            QUOTIM_MS: uint(ms_of_day(ns)),
            QUOTIM_NS: time(ns),
            QUOTE_DATE: date(ns),
        }

    def _trade_fields(self):
        t, ns = self.trade, self.trade['T'] * 1_000_000
        return {
            TRDPRC_1: real_or_blank(t['p']),
            TRDVOL_1: real_or_blank(t['q']),
            ACVOL_1: real(self.volume, self.volume_decimals),
            NUM_MOVES: real(self.trade_count, 0),
            PRCTCK_1: enum(self.tick),
            TRADE_ID: rmtes(str(t['t'])),
            SALTIM: time_of_seconds(ns),
            SALTIM_MS: uint(ms_of_day(ns)),
            SALTIM_NS: time(ns),
            TRADE_DATE: date(ns),
        }
