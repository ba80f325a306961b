//! Who is let in at a port: connections within its limits, and what operators hear of those that are not.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use counters::table::Listener as Counters;
use net::Transport;
use net::tls::{ServerTls, UnixSeconds};
use units::Nanos;

use super::acceptors::{Accepted, Acceptors};
use super::exchange::Roll;
use super::expiry::ExpiryWatch;
use super::limits::Limits;
use super::protocol::{PortEvent, Protocol, Service};

/// Want of descriptors is reported as often as this.
pub(crate) const SHORTAGE_EVERY: Duration = Duration::from_secs(10);
/// Connections beyond the limit that may be in the middle of being refused.
pub(crate) const REFUSALS_MAX: usize = 128;

/// Accepts connections and holds them against the limits.
pub(crate) struct Admission {
    pub(crate) acceptors: Acceptors,
    roll: Arc<Roll>,
    connections_max: usize,
    counters: Arc<Counters>,
    /// Connections closed for want of descriptors since that was reported last, and when it may be reported again.
    closed_unheard: u64,
    report_shortage_at: Nanos,
    expiry: ExpiryWatch,
}

impl Admission {
    pub(crate) fn new(
        acceptors: Acceptors,
        roll: Arc<Roll>,
        limits: &Limits,
        counters: Arc<Counters>,
    ) -> Admission {
        Admission {
            acceptors,
            roll,
            connections_max: limits.connections_max,
            counters,
            closed_unheard: 0,
            report_shortage_at: Nanos::ZERO,
            expiry: ExpiryWatch::default(),
        }
    }

    /// Whether there are more connections than are allowed: those beyond are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.roll.connections() > self.connections_max
    }

    /// The next connection at an acceptor that is let in. It holds a place of its address until that is released.
    pub(crate) fn next<P: Protocol>(
        &mut self,
        now: Nanos,
        acceptor: usize,
        service: &mut impl Service<P>,
    ) -> Option<(Transport, SocketAddr)> {
        loop {
            match self.acceptors.accept(acceptor) {
                Ok(Some(Accepted::Connection(transport, peer))) => {
                    if self.admits(peer.ip()) {
                        return Some((transport, peer));
                    }
                }
                Ok(Some(Accepted::Unheard)) => {
                    self.counters.descriptors_short.inc();
                    self.closed_unheard += 1;
                    self.report_shortage(now, None, service);
                }
                Ok(None) => return None,
                Err(ref error) => {
                    self.rest(now, error, service);
                    return None;
                }
            }
        }
    }

    fn admits(&mut self, address: IpAddr) -> bool {
        if self.roll.connections() >= self.connections_max + REFUSALS_MAX {
            self.counters.turned_away.inc();
            return false;
        }
        let admits = self.roll.admit(address);
        self.counters.address_full.add(u64::from(!admits));
        admits
    }

    /// A connection that was let in is gone.
    pub(crate) fn release(&mut self, address: IpAddr) {
        self.roll.release(address);
    }

    /// A connection that was let in cannot be had after all.
    pub(crate) fn turn_away(&mut self, address: IpAddr) {
        self.release(address);
        self.counters.turned_away.inc();
    }

    #[cold]
    pub(crate) fn rest<P: Protocol>(&mut self, now: Nanos, error: &io::Error, service: &mut impl Service<P>) {
        self.counters.accept_failures.inc();
        self.acceptors.rest(now);
        self.report_shortage(now, Some(error), service);
    }

    #[cold]
    fn report_shortage<P: Protocol>(
        &mut self,
        now: Nanos,
        error: Option<&io::Error>,
        service: &mut impl Service<P>,
    ) {
        if now >= self.report_shortage_at {
            self.report_shortage_at = now + SHORTAGE_EVERY;
            let closed = std::mem::take(&mut self.closed_unheard);
            service.on_port_event(PortEvent::OutOfDescriptors { closed, error });
        }
    }

    /// Ends a rest of the acceptors that is over, and reads certificates again that have changed.
    pub(crate) fn on_wakeup<P: Protocol>(&mut self, now: Nanos, service: &mut impl Service<P>) {
        let is_certificate_due = self.acceptors.is_refresh_due(now);
        match self.acceptors.on_wakeup(now) {
            Ok(false) => {}
            Ok(true) => {
                self.counters.tls_reloads.inc();
                service.on_port_event(PortEvent::CertificateReloaded);
            }
            Err(ref error) => {
                self.counters.tls_reload_failures.inc();
                service.on_port_event(PortEvent::CertificateUnusable { error });
            }
        }
        if is_certificate_due {
            self.look_at_expiry(service);
        }
    }

    /// Looks when the certificate in use expires.
    fn look_at_expiry<P: Protocol>(&mut self, service: &mut impl Service<P>) {
        let Admission { acceptors, expiry, counters, .. } = self;
        let Some((file, validity)) = acceptors.tls().and_then(ServerTls::validity) else { return };
        counters.certificate_expires.set(validity.until.0.max(0).cast_unsigned());
        let now = UnixSeconds::now();
        if expiry.is_due(validity, now) {
            service.on_port_event(PortEvent::CertificateExpires { file, until: validity.until, now });
        }
    }
}
