//! Items of any market data domain: what a consumer asks for, and how it stops asking.

mod batch;
mod close;
mod key;
mod request;
mod symbol_list;
mod view;

pub use batch::Target;
pub use close::{CloseTarget, ItemClose};
pub use key::{ItemKey, RIC};
pub use request::{DataStreams, ItemRequest};
pub use symbol_list::{Symbol, encode_symbols, symbols};
pub use view::View;

use rwf::Domain;

use crate::RdmError;

/// Whether streams of the domain are items: all but login, source directory and dictionary.
#[must_use]
pub fn has_items(domain: Domain) -> bool {
    !matches!(domain, Domain::LOGIN | Domain::SOURCE | Domain::DICTIONARY)
}

pub(crate) fn require_items(domain: Domain) -> Result<(), RdmError> {
    if has_items(domain) { Ok(()) } else { Err(RdmError::NotAnItemDomain { domain }) }
}
