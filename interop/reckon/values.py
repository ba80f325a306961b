"""Field values as the judges compare them: small JSON objects, exact, never floating point.

    {"type": "REAL", "mantissa": 6183763000000, "hint": 6}      value = mantissa * 10**(hint - 14)
    {"type": "REAL", "blank": true}
    {"type": "UINT", "value": 86055343}
    {"type": "ENUM", "value": 1}
    {"type": "RMTES", "text": "BTCUSDT"}
    {"type": "DATE", "year": 2024, "month": 8, "day": 8}
    {"type": "TIME", "hour": 23, "minute": 54, "second": 15, "nanosecond": 343000000}

The Java consumer writes the same objects, with the additional keys `text` (REAL, TIME, DATE) and `display`
(ENUM).
"""

import datetime
import re

DAY_MS = 86_400_000
DAY_NS = DAY_MS * 1_000_000
HINT_OF_WHOLE_NUMBERS = 14
_DECIMAL = re.compile(r'(-?)(\d+)(?:\.(\d+))?')


class NotDecimal(ValueError):
    """A text that is no plain decimal number, or has more digits than a REAL can carry."""


def decimal(text):
    """(mantissa, decimals) of a decimal text: '0.0150' is (150, 4). Trailing zeros count."""
    m = _DECIMAL.fullmatch(text)
    if not m:
        raise NotDecimal('%r is not a decimal number' % (text,))
    sign, whole, fraction = m.group(1), m.group(2), m.group(3) or ''
    mantissa = int(whole + fraction)
    return (-mantissa if sign else mantissa), len(fraction)


def in_one_scale(one, other):
    """Two (mantissa, decimals) as integers of the finer of their scales."""
    finer = max(one[1], other[1])
    return tuple(mantissa * 10 ** (finer - decimals) for mantissa, decimals in (one, other))


def real(mantissa, decimals):
    """The REAL with exactly these decimals."""
    if not 0 <= decimals <= HINT_OF_WHOLE_NUMBERS:
        raise NotDecimal('%d decimals do not fit a REAL, which has at most 14' % decimals)
    if not -(2**63) <= mantissa < 2**63:
        raise NotDecimal('mantissa %d does not fit 64 bits' % mantissa)
    return {'type': 'REAL', 'mantissa': mantissa, 'hint': HINT_OF_WHOLE_NUMBERS - decimals}


def real_or_blank(text):
    """The REAL of a decimal text; zero means "there is none" and is sent blank."""
    mantissa, decimals = decimal(text)
    return {'type': 'REAL', 'blank': True} if mantissa == 0 else real(mantissa, decimals)


def uint(value):
    return {'type': 'UINT', 'value': value}


def enum(value):
    return {'type': 'ENUM', 'value': value}


def rmtes(text):
    return {'type': 'RMTES', 'text': text}


def date(epoch_ns):
    d = datetime.date(1970, 1, 1) + datetime.timedelta(days=epoch_ns // DAY_NS)
    return {'type': 'DATE', 'year': d.year, 'month': d.month, 'day': d.day}


def time(epoch_ns):
    """Time of day (UTC) with all its nanoseconds."""
    of_day = epoch_ns % DAY_NS
    seconds, nanosecond = divmod(of_day, 1_000_000_000)
    return {
        'type': 'TIME',
        'hour': seconds // 3600,
        'minute': seconds // 60 % 60,
        'second': seconds % 60,
        'nanosecond': nanosecond,
    }


def time_of_seconds(epoch_ns):
    """Time of day (UTC) cut to the second."""
    return time(epoch_ns // 1_000_000_000 * 1_000_000_000)


def ms_of_day(epoch_ns):
    """Whole milliseconds since midnight UTC."""
    return epoch_ns % DAY_NS // 1_000_000
