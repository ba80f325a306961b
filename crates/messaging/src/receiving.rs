//! What a context receives: its receivers, and the transport sessions they hear.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use lbt::authentication::Keys;
use lbt::encryption::PayloadKeys;
use lbt::resolution::QueryId;
use net::udp::UdpSocket;
use slab::Slab;
use units::Nanos;

use crate::base::{Base, Port};
use crate::departed::Departed;
use crate::incoming::{Gate, IpcIncoming, RmIncoming, RuIncoming, TcpIncoming};
use crate::receiver::{Found, ReceiverEntry, Subscription};
use crate::recovery::Recovering;
use crate::stream::Streams;
use crate::{Handler, MessagingConfig, Receiver};

/// The receivers of a context, their streams, and the sessions that bring them.
pub(crate) struct Receiving {
    pub(crate) receivers: Slab<ReceiverEntry>,
    pub(crate) subscriptions: Slab<Subscription>,
    /// Subscriptions. A hash table would have to be rebuilt as it grows, in hundreds of milliseconds for a million.
    pub(crate) by_query: BTreeMap<QueryId, usize>,
    pub(crate) found: VecDeque<Found>,
    pub(crate) streams: Streams,
    pub(crate) departed: Departed,
    pub(crate) rm_in: RmIncoming,
    pub(crate) tcp_in: TcpIncoming,
    pub(crate) ipc_in: IpcIncoming,
    pub(crate) ru_in: RuIncoming,
    pub(crate) gate: Gate,
    pub(crate) recovering: Recovering,
    pub(crate) next_session: u64,
    /// When sources known by configuration are tried again.
    pub(crate) static_due: Nanos,
}

impl Receiving {
    pub(crate) fn new(config: &MessagingConfig) -> Receiving {
        Receiving {
            receivers: Slab::new(),
            subscriptions: Slab::new(),
            by_query: BTreeMap::new(),
            found: VecDeque::new(),
            streams: Streams::default(),
            departed: Departed::default(),
            rm_in: RmIncoming::default(),
            tcp_in: TcpIncoming::default(),
            ipc_in: IpcIncoming::default(),
            ru_in: RuIncoming::default(),
            gate: Gate::new(config),
            recovering: Recovering::default(),
            next_session: 0,
            static_due: Nanos::NEVER,
        }
    }

    /// When something is due.
    pub(crate) fn next_wakeup(&self, base: &Base) -> Nanos {
        if !self.found.is_empty() {
            return Nanos::ZERO;
        }
        let own = self.incoming_wakeup().min(self.recovery_wakeup(base)).min(self.static_due);
        own.min(self.streams.failovers.next_wakeup())
    }

    /// Tells a hot failover receiver that the numbers of its topics begin anew.
    pub(crate) fn restart_failover(&mut self, receiver: Receiver, handler: &mut impl Handler) {
        self.streams.failovers.restart(receiver, handler);
    }

    /// The source of a ring has rung.
    pub(crate) fn on_bell(&mut self, at: usize) {
        self.ipc_in.wake(at);
    }

    /// Whether sessions of LBT-RU may be received.
    pub(crate) fn has_ru(&self) -> bool {
        self.ru_in.descriptors() > 0
    }

    /// Sessions of LBT-RM are authenticated with other keys from now on.
    pub(crate) fn rekey_rm(&mut self, keys: &Keys) {
        self.rm_in.sessions.receivers().for_each(|receiver| receiver.rekey(keys.clone()));
    }

    /// The same of LBT-RU.
    pub(crate) fn rekey_ru(&mut self, keys: &Keys) {
        self.ru_in.sessions.receivers().for_each(|receiver| receiver.rekey(keys.clone()));
    }

    /// Sessions of LBT-RM are encrypted with other keys from now on.
    pub(crate) fn rekey_rm_payloads(&mut self, keys: &PayloadKeys) {
        self.rm_in.sessions.receivers().for_each(|receiver| receiver.rekey_payloads(keys.clone()));
    }

    /// The same of LBT-RU.
    pub(crate) fn rekey_ru_payloads(&mut self, keys: &PayloadKeys) {
        self.ru_in.sessions.receivers().for_each(|receiver| receiver.rekey_payloads(keys.clone()));
    }

    /// Data sockets and connections.
    pub(crate) fn descriptors(&self) -> usize {
        self.rm_in.descriptors() + self.tcp_in.descriptors() + self.ru_in.descriptors()
    }

    /// Shows the data sockets and the bells of rings to the poller.
    pub(crate) fn watch_data(&mut self, base: &Base) -> io::Result<()> {
        for (index, socket) in self.rm_in.sockets() {
            base.show_data(socket, Port::Group, index)?;
        }
        if let Some(socket) = self.ru_in.socket() {
            base.show_data(socket, Port::RuReceiver, 0)?;
        }
        for (index, connection) in self.tcp_in.unwatched() {
            base.show_data(connection, Port::TcpSession, index)?;
        }
        let token = |at| base.token(Port::IpcSession, at);
        self.ipc_in.watch(&base.registrar, token, &base.counters.context)
    }

    /// Takes moments back that were put off, so that the next one is exact.
    pub(crate) fn refresh(&mut self, now: Nanos) {
        self.rm_in.sessions.refresh(now);
        self.ru_in.sessions.refresh(now);
    }

    /// This process was stopped: what came meanwhile is taken.
    pub(crate) fn after_pause(&mut self, now: Nanos) {
        self.rm_in.sessions.after_pause(now);
        self.ru_in.sessions.after_pause(now);
    }

    /// The sockets that bring sessions of datagrams.
    pub(crate) fn data_sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.rm_in.sockets().map(|(_, socket)| socket).chain(self.ru_in.socket())
    }
}
