use std::fmt;

use rwf::{DataState, Domain, State, StateCode, StreamState};

/// Why an item request cannot go to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No service of that id is known.
    ServiceUnknown,
    /// The service is down.
    ServiceDown,
    /// The service is up but takes no new requests.
    NotAccepting,
    /// The domain is not among the service's capabilities.
    NoCapability {
        /// The domain.
        domain: Domain,
    },
    /// No quality on offer is one that is wanted.
    QosUnmatched,
}

impl Refusal {
    /// The state for the answer. What may pass is closed-recover, so that the consumer asks again when the
    /// service has changed; what will not is closed.
    #[must_use]
    pub const fn state(self) -> State<'static> {
        let (stream, code) = match self {
            Refusal::ServiceUnknown => (StreamState::ClosedRecover, StateCode::SOURCE_UNKNOWN),
            Refusal::ServiceDown => (StreamState::ClosedRecover, StateCode::NONE),
            Refusal::NotAccepting => (StreamState::ClosedRecover, StateCode::NO_RESOURCES),
            Refusal::NoCapability { .. } | Refusal::QosUnmatched => {
                (StreamState::Closed, StateCode::INVALID_ARGUMENT)
            }
        };
        State::new(stream, DataState::Suspect).because(code, self.text())
    }

    const fn text(self) -> &'static str {
        match self {
            Refusal::ServiceUnknown => "service unknown",
            Refusal::ServiceDown => "service is down",
            Refusal::NotAccepting => "service accepts no requests",
            Refusal::NoCapability { .. } => "domain not among the capabilities of the service",
            Refusal::QosUnmatched => "quality of service not offered",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoCapability { domain } => write!(f, "{domain}: {}", self.text()),
            other => f.write_str(other.text()),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_to_be_asked_for_again_and_what_will_not_is_not() {
        for passing in [Refusal::ServiceUnknown, Refusal::ServiceDown, Refusal::NotAccepting] {
            assert_eq!(passing.state().stream, StreamState::ClosedRecover);
        }
        assert_eq!(Refusal::QosUnmatched.state().stream, StreamState::Closed);
        let refusal = Refusal::NoCapability { domain: Domain::HISTORY };
        assert_eq!(refusal.state().stream, StreamState::Closed);
        assert_eq!(refusal.to_string(), "history: domain not among the capabilities of the service");
    }
}
