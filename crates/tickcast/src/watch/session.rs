//! What has become of the session: whether a server was reached, and whether it has the service that is wanted.

use std::collections::BTreeSet;

use client::ConsumerEvent;

use crate::failure::Failure;

pub(super) struct Session {
    service: String,
    is_reached: bool,
    /// Why there was no connection, the last time.
    reason: Option<String>,
    offered: BTreeSet<String>,
    is_hinted: bool,
}

/// So many services are named in a hint.
const NAMED_MAX: usize = 10;

impl Session {
    /// One that wants items of a service.
    pub(super) fn new(service: &str) -> Session {
        let service = service.to_owned();
        Session { service, is_reached: false, reason: None, offered: BTreeSet::new(), is_hinted: false }
    }

    pub(super) fn on_event(&mut self, event: &ConsumerEvent<'_>) {
        match event {
            ConsumerEvent::Connected { .. } => self.is_reached = true,
            ConsumerEvent::Disconnected { host, reason, .. } => {
                self.reason = Some(format!("{host}: {reason}"));
            }
            ConsumerEvent::Service(service) => drop(self.offered.insert(service.name.to_owned())),
            _ => {}
        }
    }

    /// What the user should know, once: the servers have services, and not the one that is wanted.
    pub(super) fn hint(&mut self) -> Option<String> {
        if self.is_hinted || self.offered.is_empty() || self.offered.contains(&self.service) {
            return None;
        }
        self.is_hinted = true;
        let names: Vec<&str> = self.offered.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = self.offered.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let service = &self.service;
        Some(format!(
            "the server does not offer service {service}; it offers {}{more}: choose one with --service",
            names.join(", ")
        ))
    }

    /// Nobody has seen anything where no server was reached.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        match &self.reason {
            Some(reason) if !self.is_reached => {
                Err(Failure::Run(format!("no server was reached: {reason}; choose another with --host")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_are_there_are_named_once_where_the_wanted_one_is_not() {
        let mut session = Session::new("BINANCE");
        assert_eq!(session.hint(), None, "nothing is known yet");
        session.offered = (0..12).map(|n| format!("S{n:02}")).collect();
        let hint = session.hint().expect("it is not among them");
        assert!(
            hint.contains("BINANCE") && hint.contains("S00, S01") && hint.contains("S09 and 2 more"),
            "{hint}"
        );
        assert!(hint.contains("--service") && session.hint().is_none());
        let mut session = Session::new("S03");
        session.offered = ["S03".to_owned()].into();
        assert_eq!(session.hint(), None);
    }

    #[test]
    fn a_server_that_was_never_reached_is_a_failure_with_its_reason() {
        let mut session = Session::new("BINANCE");
        assert!(session.verdict().is_ok(), "nothing was tried");
        session.reason = Some("localhost:1: refused".to_owned());
        let failure = session.verdict().expect_err("not reached").to_string();
        assert!(failure.contains("localhost:1: refused") && failure.contains("--host"), "{failure}");
        session.is_reached = true;
        assert!(session.verdict().is_ok(), "lost later is another matter");
    }
}
