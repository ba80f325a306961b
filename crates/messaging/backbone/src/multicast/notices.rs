//! What a context says of its keys and certificates, as what operators should know and do.

use std::time::Duration;

use messaging::{ContextCounters, SecurityEvent};
use units::Nanos;

use crate::Notice;

/// Where all is explained.
const PAGE: &str = "docs/backbone-security.md";
/// How often datagrams that were dropped unheard are looked for.
const INTERVAL: Duration = Duration::from_secs(10);

/// Of what the messaging library reports.
pub(super) fn notice(event: SecurityEvent, text: &str) -> Notice {
    let (is_fault, text) = match event {
        SecurityEvent::Reloaded => (false, format!("keys or certificates read again: {text}")),
        SecurityEvent::ReloadFailed => {
            (true, format!("keys or certificates cannot be used, those before stay in force: {text}"))
        }
        SecurityEvent::CertificateRefused => (
            true,
            format!(
                "a link is refused: {text}. Both ends need a certificate of backbone.ca_file that is for one of \
                 backbone.peer_names of the other end ({PAGE})"
            ),
        ),
        SecurityEvent::Unreadable => (
            true,
            format!(
                "a stream cannot be read: {text}. backbone.encryption_key_file has to have the same keys here and \
                 at the source distributor ({PAGE})"
            ),
        ),
        SecurityEvent::Exposed => (true, format!("a file of keys is open to others: {text}")),
        _ => (true, text.to_owned()),
    };
    Notice { is_fault, text }
}

/// A link that was closed before the source distributor said anything, where links are not encrypted here.
pub(super) fn unanswered(reason: &str) -> Notice {
    let text = format!(
        "a source distributor takes no link of this server: {reason}. If its backbone is secured, this server needs \
         backbone.certificate_file, key_file and ca_file too ({PAGE})"
    );
    Notice { is_fault: true, text }
}

/// Looks for datagrams that were dropped for their signatures, of which the context reports none.
pub(super) struct Unsigned {
    counters: ContextCounters,
    seen: u64,
    look_at: Nanos,
}

impl Unsigned {
    pub(super) fn new(counters: ContextCounters) -> Unsigned {
        Unsigned { counters, seen: 0, look_at: Nanos::ZERO }
    }

    /// How many there are since the last look, if it is time for one.
    pub(super) fn look(&mut self, now: Nanos) -> Option<Notice> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + INTERVAL;
        let ContextCounters { source, receiver, ru_source, ru_receiver, resolver, .. } = &self.counters;
        let dropped = source.nak_pckts_unauthentic.get()
            + receiver.dgrams_unauthentic.get()
            + ru_source.session.nak_pckts_unauthentic.get()
            + ru_receiver.session.dgrams_unauthentic.get()
            + resolver.tr_dgrams_unauthentic.get()
            + resolver.tr_dgrams_stale.get();
        let count = dropped - std::mem::replace(&mut self.seen, dropped);
        let text = format!(
            "{count} datagrams were dropped that no key of backbone.authentication_key_file has signed: somebody \
             without the keys sends them, a clock is wrong, or the files differ ({PAGE})"
        );
        (count > 0).then_some(Notice { is_fault: true, text })
    }
}

/// Looks for files of shared memory that somebody has removed while this process publishes in them.
pub(super) struct LostFiles {
    counters: ContextCounters,
    seen: u64,
}

impl LostFiles {
    pub(super) fn new(counters: ContextCounters) -> LostFiles {
        LostFiles { counters, seen: 0 }
    }

    pub(super) fn look(&mut self) -> Option<Notice> {
        let lost = self.counters.context.ipc_names_lost.get();
        let is_news = std::mem::replace(&mut self.seen, lost) < lost;
        let text = "somebody has removed this source distributor's file of shared memory (LBTIPC_* in \
                    messaging.ipc.directory): point-to-point servers that have it open go on, others get no data until \
                    this source distributor is restarted. Where it runs as an ordinary user, systemd-logind does that \
                    when the user logs out, unless logind.conf has RemoveIPC=no";
        is_news.then(|| Notice { is_fault: true, text: text.to_owned() })
    }
}

/// How many faults are reported in an interval: whoever is refused tries again at once.
pub(super) const FAULTS_MAX: u32 = 10;

/// Lets some faults through in an interval, and says with the next one how many were left out.
#[derive(Default)]
pub(crate) struct Limit {
    since: Nanos,
    count: u32,
    left_out: u64,
}

impl Limit {
    pub(crate) fn admit(&mut self, now: Nanos, mut notice: Notice) -> Option<Notice> {
        if !notice.is_fault {
            return Some(notice);
        }
        if self.count == 0 || now >= self.since + INTERVAL {
            (self.since, self.count) = (now, 0);
        }
        if self.count == FAULTS_MAX {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            notice.text.push_str(&format!(" [{left_out} reports were left out before this one]"));
        }
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_faults_some_are_reported_and_the_others_are_numbered_with_the_next() {
        let (mut limit, start) = (Limit::default(), Nanos(5_000_000_000));
        let fault = || Notice { is_fault: true, text: "refused".to_owned() };
        let reload = Notice { is_fault: false, text: "read again".to_owned() };
        let admitted = (0..1_000).filter(|_| limit.admit(start, fault()).is_some()).count();
        assert_eq!(admitted, FAULTS_MAX as usize);
        assert_eq!(limit.admit(start, reload.clone()), Some(reload), "what is no fault is never left out");
        let next = limit.admit(start + INTERVAL, fault()).expect("another interval");
        assert_eq!(next.text, "refused [990 reports were left out before this one]");
        assert_eq!(limit.admit(start + INTERVAL, fault()), Some(fault()));
    }
}
