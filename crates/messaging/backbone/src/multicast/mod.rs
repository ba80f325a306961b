//! The backbone over reliable multicast: each service a topic, links over TCP to the request port that
//! advertisements carry.

mod inlet;
mod notices;
mod outlet;

pub use inlet::MulticastInlet;
pub(crate) use notices::Limit;
pub use outlet::MulticastOutlet;

use std::io;

use messaging::ContextError;

fn to_io(error: ContextError) -> io::Error {
    match error {
        ContextError::Io(e) => e,
        other => io::Error::new(io::ErrorKind::InvalidInput, other.to_string()),
    }
}
