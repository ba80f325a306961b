"""Licence expressions (SPDX) of crates: can they be satisfied with an allowed set?"""

import re


class LicenceError(ValueError):
    """Not a licence expression."""


def satisfiable(expression, allowed):
    """Whether the licences in `allowed` satisfy the expression. A/B, as old crates write it, is A OR B."""
    tokens = re.findall(r'[()]|[^\s()]+', expression.replace('/', ' OR '))
    value, rest = _any(tokens, allowed)
    if rest:
        raise LicenceError('%r in %r' % (rest[0], expression))
    return value


def _any(tokens, allowed):
    value, tokens = _all(tokens, allowed)
    while tokens[:1] == ['OR']:
        other, tokens = _all(tokens[1:], allowed)
        value = value or other
    return value, tokens


def _all(tokens, allowed):
    value, tokens = _one(tokens, allowed)
    while tokens[:1] == ['AND']:
        other, tokens = _one(tokens[1:], allowed)
        value = value and other
    return value, tokens


def _one(tokens, allowed):
    if not tokens or tokens[0] in ('OR', 'AND', 'WITH', ')'):
        raise LicenceError('a licence is missing')
    if tokens[0] == '(':
        value, rest = _any(tokens[1:], allowed)
        if rest[:1] != [')']:
            raise LicenceError(') is missing')
        return value, rest[1:]
    name, rest = tokens[0], tokens[1:]
    if rest[:1] == ['WITH']:
        if len(rest) < 2:
            raise LicenceError('WITH what?')
        name, rest = '%s WITH %s' % (name, rest[1]), rest[2:]
    return name in allowed, rest
