"""What the items of the Java providers `iprovider` and `niprovider` hold after so many updates.

The rule is in ../java/README.md, "Made-up data"; this shares no code with the providers. Images are as the
Java consumer shows them in its `final` lines.
"""

import decimal

SLOTS = 8
HUNDREDTHS, WHOLE = 12, 14
KEY_HEADS = {7: 'ORD', 8: 'PRC', 9: 'MM', 10: 'SYM'}
SIDES = {1: 'BID', 2: 'ASK'}


def base(name, seed=0):
    """The price that the item begins at, in hundredths."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return 10_000 + (value ^ seed) % 10_000


def fields(name, updates, seed=0, view=None):
    """Field list of an item after so many updates: {field: value}; `view` are numbers of fields."""
    start = base(name, seed)
    odd, even = updates - (updates % 2 == 0) if updates else 0, updates - updates % 2
    image = {
        '3': {'type': 'RMTES', 'text': name},
        '15': _currency(),
        '22': _real(start + odd, HUNDREDTHS),
        '25': _real(start + 4 + even, HUNDREDTHS),
        '30': _real(10 + odd % 100, WHOLE),
        '31': _real(20 + even % 100, WHOLE),
        '32': _real(updates, WHOLE),
        '77': _real(updates, WHOLE),
    }
    return {field: value for field, value in image.items() if view is None or int(field) in view}


def entries(domain, name, updates, seed=0, still=0, view=None):
    """Entries of a map after so many updates: {key: {field: value}}."""
    sizes = {slot: 100 * (slot + 1) for slot in range(SLOTS // 2)}
    for number in range(1, updates + 1):
        slot = (number - 1) % SLOTS
        if slot in sizes and number % 3 == 0:
            del sizes[slot]
        else:
            sizes[slot] = number
    sizes.update((slot, slot) for slot in range(SLOTS, SLOTS + still))
    start = base(name, seed)
    return {
        '%s%05d' % (KEY_HEADS[domain], slot): {
            field: value
            for field, value in _entry(domain, start, slot, size).items()
            if view is None or int(field) in view
        }
        for slot, size in sizes.items()
    }


def _entry(domain, start, slot, size):
    if domain == 10:
        return {}
    if domain == 9:
        return {
            '22': _real(start + slot, HUNDREDTHS),
            '25': _real(start + slot + 4, HUNDREDTHS),
            '30': _real(size, WHOLE),
        }
    side = slot % 2 + 1
    return {
        '3427': _real(start + slot, HUNDREDTHS),
        '3428': {'type': 'ENUM', 'value': side, 'display': SIDES[side]},
        '4356' if domain == 8 else '3429': _real(size, WHOLE),
    }


def image(domain, name, updates, seed=0, still=0):
    """The parts of the consumer's `final` line that show the image."""
    if domain not in KEY_HEADS:
        return {'fields': fields(name, updates, seed)}
    found = {'entries': entries(domain, name, updates, seed, still)}
    return found if domain == 10 else dict(found, summary={'15': _currency()})


def by_value(image):
    """The same with reals as decimals: on the way through JSON 136.50 becomes 136.5."""
    if not isinstance(image, dict):
        return image
    if image.get('type') == 'REAL' and 'mantissa' in image:
        return decimal.Decimal(image['text'])
    return {key: by_value(value) for key, value in image.items()}


def _currency():
    return {'type': 'ENUM', 'value': 840, 'display': 'USD'}


def _real(mantissa, hint):
    places = WHOLE - hint
    digits = '%0*d' % (places + 1, mantissa)
    text = '%s.%s' % (digits[:-places], digits[-places:]) if places else digits
    return {'type': 'REAL', 'mantissa': mantissa, 'hint': hint, 'text': text}
