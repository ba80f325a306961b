"""A name server that is silent until it is told to answer, and a place whose processes ask it and do not give up."""

import os
import socket
import struct
import threading

from network import Loopback

# Nobody else's: addresses of loopback are many.
ADDRESS = ('127.0.0.77', 53)
A, INTERNET = 1, 1
MESSAGE_BYTES_MAX = 512
NO_ERROR, NAME_ERROR = 0x8180, 0x8183


class NameServer:
    """`addresses`: name to list of addresses. Asks nobody else. Before `answer` it says nothing; then it answers also
    what it was asked before."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.asked = 0
        self.lock = threading.Lock()
        self.silent = True
        self.unanswered = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(ADDRESS)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def answer(self):
        with self.lock:
            self.silent = False
            for query, client in self.unanswered:
                self._send_reply(query, client)
            self.unanswered.clear()

    def close(self):
        self.socket.close()

    def _serve(self):
        while True:
            try:
                query, client = self.socket.recvfrom(MESSAGE_BYTES_MAX)
            except OSError:
                return
            if len(query) < 12:  # no query: the socket is being closed
                continue
            with self.lock:
                self.asked += 1
                if self.silent:
                    self.unanswered.append((query, client))
                else:
                    self._send_reply(query, client)

    def _send_reply(self, query, client):
        self.socket.sendto(self._reply(query), client)

    def _reply(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        (kind,) = struct.unpack_from('>H', query, at + 1)
        question = query[12 : at + 5]
        known = self.addresses.get('.'.join(labels))
        wanted = known if known and kind == A else []
        # The name of each answer is a pointer to the question's.
        answers = [struct.pack('>HHHIH', 0xC00C, A, INTERNET, 60, 4) + socket.inet_aton(a) for a in wanted]
        flags = NAME_ERROR if known is None else NO_ERROR
        return query[:2] + struct.pack('>HHHHH', flags, 1, len(answers), 0, 0) + question + b''.join(answers)


class Named(Loopback):
    """This machine; who runs on the host `named` resolves names at the name server alone."""

    def __init__(self, directory):
        super().__init__()
        self.resolv_conf = os.path.join(directory, 'resolv.conf')
        with open(self.resolv_conf, 'w') as f:
            # By default they would give up after ten seconds, and say so, while a test may still watch them hang. These
            # are the largest numbers there are: 150 s.
            f.write('nameserver %s\noptions timeout:30 attempts:5\n' % ADDRESS[0])

    def words(self, host, words):
        if host != 'named':
            return list(words)
        own = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        return ['unshare', '--mount', 'sh', '-c', own, self.resolv_conf, *words]
