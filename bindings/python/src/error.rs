use messaging::{Closed, ContextError, Forked, RequestError, SendError};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(tickcast, TickcastError, PyException, "All errors of this package.");
create_exception!(
    tickcast,
    ConfigError,
    TickcastError,
    "A file, a setting or a topic is wrong; the text says where."
);
create_exception!(tickcast, TransportError, TickcastError, "The system refused something.");
create_exception!(
    tickcast,
    WouldBlockError,
    TickcastError,
    "Not now: what may wait for the transport waits."
);
create_exception!(tickcast, MessageTooLongError, TickcastError, "The message is longer than the limit.");
create_exception!(tickcast, ClosedError, TickcastError, "The context or the source was closed.");
create_exception!(
    tickcast,
    ForkedError,
    TickcastError,
    "The context is its parent's: a child made by fork makes its own."
);
create_exception!(tickcast, LimitError, TickcastError, "So many are open already.");

/// The context was closed.
pub(crate) fn closed() -> PyErr {
    ClosedError::new_err("the context is closed")
}

pub(crate) fn of_context(error: &ContextError) -> PyErr {
    match error {
        ContextError::Io(e) => of_io(e),
        ContextError::Closed => closed(),
        ContextError::Forked(e) => ForkedError::new_err(e.to_string()),
        error => ConfigError::new_err(error.to_string()),
    }
}

pub(crate) fn of_send(error: &SendError) -> PyErr {
    let text = error.to_string();
    match error {
        SendError::WouldBlock => WouldBlockError::new_err(text),
        SendError::TooLong { .. } => MessageTooLongError::new_err(text),
        SendError::Forked => ForkedError::new_err(text),
        _ => ClosedError::new_err(text),
    }
}

pub(crate) fn of_request(error: &RequestError) -> PyErr {
    match error {
        RequestError::Send(error) => of_send(error),
        RequestError::Listen(error) => of_context(error),
        error => LimitError::new_err(error.to_string()),
    }
}

pub(crate) fn of_io(error: &std::io::Error) -> PyErr {
    if Forked::is(error) {
        return ForkedError::new_err(error.to_string());
    }
    if Closed::is(error) {
        return closed();
    }
    TransportError::new_err(error.to_string())
}
