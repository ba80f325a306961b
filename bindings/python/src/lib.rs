//! The native half of the Python package `tickcast`: contexts, sources, receivers and the events of a turn.
//!
//! A turn of a context runs without the interpreter's lock and gathers what it brings in one buffer; then it
//! becomes Python objects, whose payloads are views into that buffer. So a handler may use the context, and a
//! view lives as long as somebody has it.

mod context;
mod error;
mod event;
mod gather;
mod handle;
mod recorder;

/// The classes and exceptions that the package shows.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::context::{Context, Left};
    #[pymodule_export]
    use crate::error::{
        ClosedError, ConfigError, ForkedError, LimitError, MessageTooLongError, TickcastError,
        TransportError, WouldBlockError,
    };
    #[pymodule_export]
    use crate::event::{
        Begin, End, FailoverLoss, Loss, Message, RequestEnded, Response, SecurityNotice, SourceFound,
        SourceNotice,
    };
    #[pymodule_export]
    use crate::handle::{Receiver, Source};
    #[pymodule_export]
    use crate::recorder::Recorder;
}
