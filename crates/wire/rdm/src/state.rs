use rwf::{DataState, State, StateCode, StreamState};

/// A [`State`] that owns its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedState {
    /// Whether the stream goes on.
    pub stream: StreamState,
    /// Whether the data can be trusted.
    pub data: DataState,
    /// Why, as a number.
    pub code: StateCode,
    /// Why, in words; may be empty.
    pub text: String,
}

impl OwnedState {
    /// The same state, borrowed.
    #[must_use]
    pub fn borrow(&self) -> State<'_> {
        State { stream: self.stream, data: self.data, code: self.code, text: self.text.as_bytes() }
    }

    /// Whether what comes later is in this state too: streams in trouble stay in trouble until they are told
    /// otherwise, while a recovery or an end happens once.
    pub(crate) fn lasts(&self) -> bool {
        self.stream == StreamState::Open && self.data == DataState::Suspect
    }

    /// The state as it may stand in an entry of a list.
    ///
    /// The vendor's Java library has a fault with the lengths 125 and 126 in entries, so that a text is cut
    /// before it.
    pub(crate) fn in_entry(&self) -> State<'_> {
        let end = self.text.floor_char_boundary(ENTRY_TEXT_BYTES_MAX);
        State { text: &self.text.as_bytes()[..end], ..self.borrow() }
    }
}

/// The longest text of a state inside a list entry, in bytes; longer ones are cut.
pub const ENTRY_TEXT_BYTES_MAX: usize = 124;

impl From<State<'_>> for OwnedState {
    /// Takes a state over; what is not UTF-8 in its text is replaced.
    fn from(state: State<'_>) -> Self {
        OwnedState {
            stream: state.stream,
            data: state.data,
            code: state.code,
            text: state.text_lossy().into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_where_it_stands_in_an_entry() {
        let mut state = OwnedState::from(State::OPEN_OK);
        state.text = "é".repeat(100);
        assert_eq!(state.in_entry().text.len(), 124);
        state.text.insert(0, '.');
        assert_eq!(state.in_entry().text.len(), 123);
        assert_eq!(state.borrow().text.len(), 201);
        assert_eq!(OwnedState::from(state.borrow()), state);
    }
}
