"""The vendor's package with a session of its own installation: what each call gives, as one JSON object.

usage: deployed.py lseg|refinitiv HOST:PORT FIELD,FIELD ITEM... (the last item is one that the server lacks)
"""

import importlib
import json
import os
import sys
import tempfile
import threading

# Everything that is waited for comes within this time, or not at all.
LIMIT_S = 30


def within_limit(call):
    """The result of a call that may hang."""
    result = {}
    thread = threading.Thread(target=lambda: result.update(value=call()), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if 'value' not in result:
        raise RuntimeError('no answer in time, or an exception above')
    return result['value']


def session_of(data, host, user='python'):
    """A session of the package `data` with the installation at `host`, not open yet."""
    return data.session.platform.Definition(
        app_key='none',
        deployed_platform_host=host,
        deployed_platform_username=user,
        dacs_application_id='256',
        dacs_position='127.0.0.1/net',
    ).get_session()


def rows(frame):
    """{item: {field: value}} of a data frame."""
    return {row['Instrument']: {k: v for k, v in row.items() if k != 'Instrument'} for row in frame.to_dict('records')}


def streamed(pricing, session, items, fields):
    """The items of which a streaming request has seen a refresh, and an update."""
    refreshed, updated, seen = set(), set(), threading.Event()
    stream = pricing.Definition(universe=items, fields=fields).get_stream(session)
    stream.on_refresh(lambda *said: refreshed.add(str(said[1])))

    def on_update(*said):
        updated.add(str(said[1]))
        if updated >= set(items):
            seen.set()

    stream.on_update(on_update)
    within_limit(stream.open)
    seen.wait(LIMIT_S)
    within_limit(stream.close)
    return {'refreshed': sorted(refreshed), 'updated': sorted(updated)}


def refused(delivery, session, name):
    """The state that an item gets which there is not."""
    states = []
    stream = delivery.omm_stream.Definition(name=name, domain='MarketPrice').get_stream(session)
    stream.on_status(lambda *said: states.extend(m['State'] for m in said if isinstance(m, dict) and 'State' in m))
    within_limit(stream.open)
    within_limit(stream.close)
    return states[:1]


def main(package, host, fields, *names):
    *items, missing = names
    os.chdir(tempfile.mkdtemp(prefix='deployed-'))  # it writes a log where it stands
    data = importlib.import_module(package + '.data')
    pricing = importlib.import_module(package + '.data.content.pricing')
    delivery = importlib.import_module(package + '.data.delivery')
    session = session_of(data, host)
    session.open()
    data.session.set_default(session)
    fields, items = fields.split(','), list(items)
    said = {
        'session': str(session.open_state).rsplit('.', 1)[-1],
        'get_data': rows(within_limit(lambda: data.get_data(items, fields))),
        'refused': refused(delivery, session, missing),
        'streamed': streamed(pricing, session, items, fields),
    }
    print(json.dumps(said, default=str), flush=True)
    within_limit(lambda: [session.close()])


if __name__ == '__main__':
    main(*sys.argv[1:])
    # The packages leave threads behind.
    os._exit(0)
