//! The source directory domain: which services there are, what they offer and whether they can be used.

mod consumer_status;
mod delta;
mod filter;
mod message;
mod overlay;
mod qos;
mod read;
mod refusal;
mod service;
mod table;
mod write;

pub use consumer_status::ConsumerStatus;
pub use delta::{
    Change, Edit, GroupElements, InfoElements, LinkEdit, LinkElements, LoadElements, ServiceDelta,
    StateElements,
};
pub use filter::{Aspect, Filter};
pub use message::{DirectoryMsg, DirectoryRefresh, DirectoryRequest, DirectoryUpdate};
pub use qos::QosRange;
pub use refusal::Refusal;
pub use service::{
    Info, Link, LinkCode, LinkType, Load, Service, ServiceData, ServiceDataType, ServiceState,
};
pub use table::{Directory, DirectoryChange, DirectoryLimits};
