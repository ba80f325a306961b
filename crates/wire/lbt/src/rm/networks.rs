//! Two networks that carry the same session: which of them brings what.

use crate::session::Standing;
use counters::Counter;
use counters::table::LbtrmNetworks;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// What is known of a session's two networks.
pub(super) struct Networks {
    /// The source's address on the second one.
    second: Ipv4Addr,
    states: [NetworkState; 2],
    /// Which brought the last packet, and since when it alone brings any.
    alone: Option<(usize, Nanos)>,
    silence: Duration,
    /// Which of them brought the highest number.
    front: usize,
    /// By which of them the last NAK or report went.
    asked: usize,
    /// The number of the last session message.
    sm_sqn: Option<u32>,
    counters: Arc<LbtrmNetworks>,
}

/// What is known of one network.
#[derive(Clone, Copy)]
struct NetworkState {
    has_brought: bool,
    is_silent: bool,
}

impl Networks {
    pub(super) fn new(second: Ipv4Addr, silence: Duration, counters: Arc<LbtrmNetworks>) -> Networks {
        let state = NetworkState { has_brought: false, is_silent: false };
        Networks {
            second,
            states: [state; 2],
            alone: None,
            silence,
            front: 0,
            asked: 0,
            sm_sqn: None,
            counters,
        }
    }

    pub(super) fn second(&self) -> Ipv4Addr {
        self.second
    }

    /// A network has brought something; if the other has not for long, it is silent.
    pub(super) fn hear(&mut self, now: Nanos, is_second: bool) {
        let (at, other) = (usize::from(is_second), usize::from(!is_second));
        let counters = &self.counters;
        [&counters.a_dgrams_rcved, &counters.b_dgrams_rcved][at].inc();
        self.states[at].has_brought = true;
        self.set_silent(at, false);
        // Not since the other's last packet: after a pause of the source it is not late yet.
        if self.alone.is_none_or(|(last, _)| last != at) {
            self.alone = Some((at, now));
        }
        if self.alone.is_some_and(|(_, since)| now >= since + self.silence) {
            self.set_silent(other, true);
        }
    }

    fn set_silent(&mut self, at: usize, is_silent: bool) {
        if std::mem::replace(&mut self.states[at].is_silent, is_silent) == is_silent {
            return;
        }
        let gauge: &Counter = [&self.counters.a_silent, &self.counters.b_silent][at];
        if is_silent {
            gauge.inc();
            [&self.counters.a_silences, &self.counters.b_silences][at].inc();
        } else {
            gauge.set(gauge.get().saturating_sub(1));
        }
    }

    /// A datagram came that was here, or given up, before.
    pub(super) fn on_second_copy(&mut self) {
        self.counters.second_copies.inc();
    }

    /// A datagram was taken.
    pub(super) fn on_first_copy(&mut self, is_second: bool, standing: Standing, again: bool) {
        let at = usize::from(is_second);
        let counters = &self.counters;
        [&counters.a_first_copies, &counters.b_first_copies][at].inc();
        match standing {
            Standing::New => self.front = at,
            Standing::Missing if !again && at != self.front => {
                [&counters.a_gaps_filled, &counters.b_gaps_filled][at].inc();
            }
            Standing::Missing | Standing::Past => {}
        }
    }

    /// Whether a session message is not the copy of the last one.
    pub(super) fn is_new(&mut self, sm_sqn: u32) -> bool {
        self.sm_sqn.replace(sm_sqn) != Some(sm_sqn)
    }

    /// Whether a network is the one of which NAK confirmations are taken.
    pub(super) fn is_guide(&self, is_second: bool) -> bool {
        is_second == self.states[0].is_silent
    }

    /// Chooses the network of a NAK or report: each in turn, but none that is silent or was never heard.
    /// The source's address there, if it is the second.
    pub(super) fn network_of_feedback(&mut self) -> Option<Ipv4Addr> {
        let is_usable = |at: usize| self.states[at].has_brought && !self.states[at].is_silent;
        let other = 1 - self.asked;
        if is_usable(other) {
            self.asked = other;
        }
        let counters = &self.counters;
        [&counters.a_feedback_sent, &counters.b_feedback_sent][self.asked].inc();
        (self.asked == 1).then_some(self.second)
    }
}

/// A session that is over has no silent network.
impl Drop for Networks {
    fn drop(&mut self) {
        self.set_silent(0, false);
        self.set_silent(1, false);
    }
}
