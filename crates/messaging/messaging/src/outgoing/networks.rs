//! LBT-RM on two networks: everything goes out on both.

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use counters::table::LbtrmNetworks;
use lbt::rm::Transmit;
use net::udp::{MulticastOptions, Sent, UdpSocket};
use units::Nanos;

use super::rm::RmPort;
use crate::xdp::Xdp;

/// Where a session's datagrams leave and its NAKs come in on the second network.
///
/// One of the two networks leads: what its socket takes counts as sent, and the other gets the same at once
/// or not at all. If the leading one fails, or takes nothing for a moment though the other would, the other
/// leads: a network that is down does not hold the session up.
pub(super) struct SecondPort {
    data: UdpSocket,
    naks: UdpSocket,
    /// The second network leads.
    leads: bool,
    /// Since when the leading one takes nothing.
    blocked_since: Option<Nanos>,
    counters: Arc<LbtrmNetworks>,
}

/// How long the leading network may take nothing: longer than a socket of a link that works is full.
const PATIENCE: Duration = Duration::from_millis(2);

impl SecondPort {
    pub(super) fn open(
        port: u16,
        group: SocketAddrV4,
        options: MulticastOptions,
        counters: &Arc<LbtrmNetworks>,
    ) -> io::Result<SecondPort> {
        let naks = UdpSocket::multicast_sender(SocketAddrV4::new(options.interface, port), options)?;
        let data = naks.lane(group, options)?;
        Ok(SecondPort { data, naks, leads: false, blocked_since: None, counters: counters.clone() })
    }

    /// Where NAKs come in.
    pub(super) fn naks(&self) -> &UdpSocket {
        &self.naks
    }

    pub(super) fn sends_runs(&self) -> bool {
        self.data.sends_runs()
    }

    /// Sends a run on both networks; says how much of it went out on one at least.
    pub(super) fn send_on_both(
        &mut self,
        now: Nanos,
        first: &RmPort,
        to: SocketAddrV4,
        run: &Transmit<'_>,
        xdp: &mut Xdp,
    ) -> io::Result<Sent> {
        let led = self.send_on(self.leads, first, to, run.bytes, run.segment_len, xdp);
        match led {
            Ok(Sent::Datagrams(count)) => {
                self.blocked_since = None;
                let bytes = &run.bytes[..(count * run.segment_len).min(run.bytes.len())];
                let copied = match self.send_on(!self.leads, first, to, bytes, run.segment_len, xdp) {
                    Ok(Sent::Datagrams(copied)) => copied,
                    Ok(Sent::WouldBlock) | Err(_) => 0,
                };
                self.count_dropped(!self.leads, count - copied.min(count));
            }
            Ok(Sent::WouldBlock) if now < self.blocked_since.get_or_insert(now).after(PATIENCE) => {}
            Ok(Sent::WouldBlock) | Err(_) => {
                if let Ok(Sent::Datagrams(count)) =
                    self.send_on(!self.leads, first, to, run.bytes, run.segment_len, xdp)
                {
                    self.count_dropped(self.leads, count);
                    (self.leads, self.blocked_since) = (!self.leads, None);
                    return Ok(Sent::Datagrams(count));
                }
            }
        }
        led
    }

    fn send_on(
        &self,
        is_second: bool,
        first: &RmPort,
        to: SocketAddrV4,
        bytes: &[u8],
        segment_len: usize,
        xdp: &mut Xdp,
    ) -> io::Result<Sent> {
        if is_second {
            self.data.send_run(to, bytes, segment_len)
        } else {
            first.send_run(to, bytes, segment_len, xdp)
        }
    }

    fn count_dropped(&self, is_second: bool, count: usize) {
        let LbtrmNetworks { a_copies_dropped, b_copies_dropped, .. } = &*self.counters;
        if is_second { b_copies_dropped } else { a_copies_dropped }.add(count as u64);
    }
}
