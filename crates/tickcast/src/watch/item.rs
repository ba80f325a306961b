use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use client::{ItemEvent, ItemHandle};
use rdm::OwnedState;
use rwf::{DataState, Domain, State, StreamState};

/// What an item is called on the command line: NAME, or DOMAIN:NAME.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchedName {
    pub(crate) domain: Domain,
    pub(crate) name: String,
}

impl WatchedName {
    /// The book by price of the same name.
    pub(crate) fn book(&self) -> WatchedName {
        WatchedName { domain: Domain::MARKET_BY_PRICE, name: self.name.clone() }
    }
}

impl FromStr for WatchedName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<WatchedName, Infallible> {
        // Names may have colons of their own: only a number in front is a domain.
        let split = text.split_once(':').and_then(|(domain, name)| Some((domain.parse::<u8>().ok()?, name)));
        Ok(match split {
            Some((domain, name)) => WatchedName { domain: Domain(domain), name: name.to_owned() },
            None => WatchedName { domain: Domain::MARKET_PRICE, name: text.to_owned() },
        })
    }
}

impl fmt::Display for WatchedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.domain == Domain::MARKET_PRICE {
            f.write_str(&self.name)
        } else {
            write!(f, "{}:{}", self.domain.0, self.name)
        }
    }
}

/// An item that is watched, and what has come so far.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) name: WatchedName,
    pub(crate) handle: ItemHandle,
    pub(crate) state: State<'static>,
    /// The words of the last state that had some.
    pub(crate) last_state: OwnedState,
    pub(crate) refresh_count: u64,
    pub(crate) update_count: u64,
    pub(crate) status_count: u64,
    /// A whole image has come.
    pub(crate) has_image: bool,
    /// It has ended without being a snapshot that is whole.
    pub(crate) is_closed: bool,
}

impl Watched {
    pub(crate) fn new(name: WatchedName, handle: ItemHandle) -> Watched {
        let state = State::new(StreamState::Open, DataState::Suspect);
        Watched {
            name,
            handle,
            state,
            last_state: OwnedState::from(state),
            refresh_count: 0,
            update_count: 0,
            status_count: 0,
            has_image: false,
            is_closed: false,
        }
    }

    pub(crate) fn on_event(&mut self, event: &ItemEvent<'_>) {
        let state = event.state();
        self.state = State { text: b"", ..state };
        if event.is_update() {
            self.update_count += 1;
            return;
        }
        self.last_state = OwnedState::from(state);
        if event.is_refresh() {
            self.refresh_count += 1;
            self.has_image |= event.is_complete();
        } else {
            self.status_count += 1;
        }
        self.is_closed |= event.is_final() && state.stream != StreamState::NonStreaming;
    }

    /// Whether it has its image, or will never have one.
    pub(crate) fn is_answered(&self) -> bool {
        self.has_image || self.is_closed
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use client::OwnedItemEvent;
    use rwf::dictionary::{Field, FieldType};
    use rwf::{DataType, Dictionary, UpdateMsg, encode_to_vec};

    use super::*;

    /// BID written as the unsigned integer 7937, ASK 40.11, BIDSIZE 5.
    pub(crate) const BID_AS_UINT: &[u8] =
        &[8, 0, 3, 0, 22, 2, 0x1F, 1, 0, 25, 3, 0x0C, 0x0F, 0xAB, 0, 30, 2, 14, 5];

    /// An update with these fields, and a dictionary that says that they are REAL.
    pub(crate) fn update(fields: &[u8]) -> OwnedItemEvent {
        let mut dictionary = Dictionary::new();
        for (id, name) in [(22, "BID"), (25, "ASK"), (30, "BIDSIZE")] {
            let field = Field {
                id,
                name: name.into(),
                dde_acronym: name.into(),
                ripples_to: None,
                field_type: FieldType::PRICE,
                length: 17,
                enum_length: 0,
                data_type: DataType::REAL,
                rwf_length: 7,
            };
            dictionary.add_field(field).expect("a new field");
        }
        let msg =
            UpdateMsg { payload: fields, ..UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST) };
        OwnedItemEvent {
            handle: ItemHandle::from_u64(0),
            tag: 0,
            name: "A".into(),
            service: "S".into(),
            domain: Domain::MARKET_PRICE,
            state: State::OPEN_OK.into(),
            is_final: false,
            message: encode_to_vec(|w| msg.encode(w)).expect("small").into(),
            dictionary: Some(Arc::new(dictionary)),
            merged: None,
        }
    }

    #[test]
    fn only_a_number_in_front_is_a_domain() {
        for (text, domain, name) in
            [("BTCUSDT", 6, "BTCUSDT"), ("8:BTCUSDT", 8, "BTCUSDT"), ("A:B", 6, "A:B"), ("256:X", 6, "256:X")]
        {
            let found: WatchedName = text.parse().expect("never fails");
            assert_eq!((found.domain.0, found.name.as_str()), (domain, name));
            assert_eq!(found.to_string(), text);
        }
    }
}
