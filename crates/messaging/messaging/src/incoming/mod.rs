//! The transport sessions that a context receives, each transport by itself.

mod ipc;
mod reliable;
mod rest;
mod rm;
mod ru;
mod tcp;

use std::io;

use lbt::config::Order;
use lbt::resolution::TransportSession;
use lbt::session::{Repair, RunId};
use net::udp::{ReceiveBatch, Received, UdpSocket};
use units::{Nanos, Sqn};

use crate::base::Base;
use crate::keys::NewKeys;
use crate::recovery::{Recovery, Stirred};
use crate::session::SessionRef;

pub(crate) use ipc::{IpcIncoming, Looked, TURNS_PER_DRAIN};
pub(crate) use reliable::ReliableIncoming;
pub(crate) use rm::RmIncoming;
pub(crate) use ru::RuIncoming;
pub(crate) use tcp::TcpIncoming;

/// Why a socket is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The poller has told that something is there.
    Told,
    /// It is this one's turn, whether or not something is there. An answer to a message does not wait here for
    /// the NAKs that are due: they leave with the next look at the timers, within 50 us.
    Direct,
}

impl Look {
    #[inline]
    pub(crate) fn at<'b>(self, socket: &UdpSocket, batch: &'b mut ReceiveBatch) -> io::Result<Received<'b>> {
        match self {
            Look::Told => socket.receive(batch),
            Look::Direct => socket.poll(batch),
        }
    }
}

/// What is known of a session that was opened.
pub(crate) enum Sign {
    Heard,
    None {
        /// The connection is not made yet.
        is_connecting: bool,
    },
}

/// The sessions of all transports. What is done with one whatever its transport is told apart here.
#[derive(Default)]
pub(crate) struct Incoming {
    pub(crate) rm: RmIncoming,
    pub(crate) tcp: TcpIncoming,
    pub(crate) ipc: IpcIncoming,
    pub(crate) ru: RuIncoming,
}

/// A session by its place in a transport.
pub(crate) type OfTransport = fn(usize) -> SessionRef;

impl Incoming {
    pub(crate) fn subscribe(
        &mut self,
        session: SessionRef,
        index: u32,
        token: u64,
        order: Option<Order>,
    ) -> bool {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.subscribe(at, index, token, order),
            SessionRef::Tcp(at) => self.tcp.subscribe(at, index, token, order),
            SessionRef::Ipc(at) => self.ipc.subscribe(at, index, token, order),
            SessionRef::Ru(at) => self.ru.sessions.subscribe(at, index, token, order),
        }
    }

    pub(crate) fn resume(&mut self, session: SessionRef, index: u32, next: Sqn) {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.resume_topic(at, index, next),
            SessionRef::Ru(at) => self.ru.sessions.resume_topic(at, index, next),
            SessionRef::Tcp(at) => self.tcp.resume_topic(at, index, next),
            SessionRef::Ipc(at) => self.ipc.resume_topic(at, index, next),
        }
    }

    /// The run of its source that a session is in, if that is said.
    pub(crate) fn run_of(&self, session: SessionRef) -> Option<RunId> {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.run(at),
            SessionRef::Ru(at) => self.ru.sessions.run(at),
            SessionRef::Tcp(_) | SessionRef::Ipc(_) => None,
        }
    }

    /// Whether a session is received already.
    pub(crate) fn is_received(&self, session: &TransportSession) -> bool {
        match session {
            TransportSession::LbtRm { key, .. } => self.rm.receives(*key),
            TransportSession::Tcp { .. } => self.tcp.receives(session),
            TransportSession::LbtRu { address, .. } => self.ru.receives(*address),
            TransportSession::Ipc { .. } => false,
        }
    }

    /// What a session that was opened under a number has shown; none if it is gone.
    pub(crate) fn sign_of(&self, session: SessionRef, number: u64) -> Option<Sign> {
        let (has_begun, is_connecting) = match session {
            SessionRef::Rm(at) => (self.rm.sessions.has_begun(at, number)?, false),
            SessionRef::Ru(at) => (self.ru.sessions.has_begun(at, number)?, false),
            SessionRef::Tcp(at) => self.tcp.has_begun(at, number)?,
            SessionRef::Ipc(_) => return None,
        };
        Some(if has_begun { Sign::Heard } else { Sign::None { is_connecting } })
    }

    /// A topic is heard in order from now on; returns the number from which on.
    pub(crate) fn put_in_order(&mut self, session: SessionRef, index: u32) -> Option<Sqn> {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.put_in_order(at, index),
            SessionRef::Ru(at) => self.ru.sessions.put_in_order(at, index),
            SessionRef::Tcp(at) => self.tcp.put_in_order(at, index),
            SessionRef::Ipc(at) => self.ipc.put_in_order(at, index),
        }
    }

    pub(crate) fn unsubscribe(&mut self, session: SessionRef, index: u32) {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.unsubscribe(at, index),
            SessionRef::Tcp(at) => self.tcp.unsubscribe(at, index),
            SessionRef::Ipc(at) => self.ipc.unsubscribe(at, index),
            SessionRef::Ru(at) => self.ru.sessions.unsubscribe(at, index),
        }
    }

    /// Closes a session; returns what it was called, if it was there.
    pub(crate) fn close(&mut self, base: &mut Base, session: SessionRef) -> Option<TransportSession> {
        match session {
            SessionRef::Rm(at) => self.rm.close(base, at),
            SessionRef::Tcp(at) => self.tcp.close(at),
            SessionRef::Ru(at) => self.ru.close(base, at),
            SessionRef::Ipc(at) => self.ipc.close(at),
        }
    }

    /// Where the recovery of a session is kept.
    pub(crate) fn place_of_recovery(&mut self, session: SessionRef) -> Option<&mut Option<Box<Recovery>>> {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.recovery(at),
            SessionRef::Ru(at) => self.ru.sessions.recovery(at),
            SessionRef::Tcp(at) => self.tcp.recovery(at),
            SessionRef::Ipc(at) => self.ipc.recovery(at),
        }
    }

    /// The recovery of a session, if it has one.
    pub(crate) fn recovery_of(&mut self, session: SessionRef) -> Option<&mut Recovery> {
        self.place_of_recovery(session)?.as_deref_mut()
    }

    /// The same with whether the session is over.
    pub(crate) fn state_of_recovery(&self, session: SessionRef) -> Option<(bool, &Recovery)> {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.state_of_recovery(at),
            SessionRef::Ru(at) => self.ru.sessions.state_of_recovery(at),
            SessionRef::Tcp(at) => self.tcp.state_of_recovery(at),
            SessionRef::Ipc(at) => self.ipc.state_of_recovery(at),
        }
    }

    /// Sessions with a recovery to which something has happened, by transport.
    pub(crate) fn stirred(&self) -> [(OfTransport, &Stirred); 4] {
        [
            (SessionRef::Rm, &self.rm.sessions.with_recovery),
            (SessionRef::Ru, &self.ru.sessions.with_recovery),
            (SessionRef::Tcp, &self.tcp.with_recovery),
            (SessionRef::Ipc, &self.ipc.with_recovery),
        ]
    }

    /// Takes them, for good.
    pub(crate) fn take_stirred(&mut self, mut each: impl FnMut(SessionRef)) {
        for (of, stirred) in [
            (SessionRef::Rm as OfTransport, &mut self.rm.sessions.with_recovery),
            (SessionRef::Ru, &mut self.ru.sessions.with_recovery),
            (SessionRef::Tcp, &mut self.tcp.with_recovery),
            (SessionRef::Ipc, &mut self.ipc.with_recovery),
        ] {
            stirred.0.drain(..).map(of).for_each(&mut each);
        }
    }

    /// When something is due for a session.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        let datagrams = self.rm.sessions.next_wakeup().min(self.ru.sessions.next_wakeup());
        datagrams.min(self.ipc.next_wakeup())
    }

    /// Bytes that a session has brought, and what was repaired of it.
    pub(crate) fn received(&self, session: SessionRef) -> (u64, Option<Repair>) {
        let repair = match session {
            SessionRef::Rm(at) => self.rm.sessions.get(at).map(|receiver| receiver.repair()),
            SessionRef::Ru(at) => self.ru.sessions.get(at).map(|receiver| receiver.repair()),
            SessionRef::Tcp(at) => return (self.tcp.bytes(at), None),
            SessionRef::Ipc(at) => return (self.ipc.bytes(at), None),
        };
        (repair.map_or(0, |repair| repair.bytes), repair)
    }

    /// Topic numbers since `first` that were delivered or lost.
    pub(crate) fn span(&self, session: SessionRef, topic: u32, first: Sqn) -> Option<u64> {
        match session {
            SessionRef::Rm(at) => self.rm.sessions.get(at)?.span(topic, first),
            SessionRef::Ru(at) => self.ru.sessions.get(at)?.span(topic, first),
            SessionRef::Tcp(at) => self.tcp.span(at, topic, first),
            SessionRef::Ipc(at) => self.ipc.span(at, topic, first),
        }
    }

    /// When the recovery of a session is due; none if it has none.
    pub(crate) fn recovery_due(&self, base: &Base, session: SessionRef) -> Option<Nanos> {
        let (is_over, recovery) = self.state_of_recovery(session)?;
        let interval = base.config.recovery().retransmit_request_interval;
        let waits = recovery.requester.wants_connection();
        Some(match recovery.connection {
            _ if is_over && recovery.requester.is_idle() => Nanos::ZERO,
            // It begins or ends to wait, which is noted.
            _ if waits != recovery.is_waiting => Nanos::ZERO,
            None if !waits => Nanos::NEVER,
            None => recovery.connects_at.min(recovery.requester.next_wakeup()),
            Some(_) if waits => recovery.requester.next_wakeup().min(recovery.moves_at(interval)),
            Some(_) => recovery.used + base.config.response_deletion_timeout(),
        })
    }

    /// Keys are other ones from now on.
    pub(crate) fn rekey(&mut self, keys: &NewKeys<'_>) {
        match *keys {
            NewKeys::Rm(keys) => self.rm.sessions.receivers().for_each(|r| r.rekey(keys.clone())),
            NewKeys::Ru(keys) => self.ru.sessions.receivers().for_each(|r| r.rekey(keys.clone())),
            NewKeys::RmPayloads(keys) => {
                self.rm.sessions.receivers().for_each(|r| r.rekey_payloads(keys.clone()));
            }
            NewKeys::RuPayloads(keys) => {
                self.ru.sessions.receivers().for_each(|r| r.rekey_payloads(keys.clone()));
            }
        }
    }
}
