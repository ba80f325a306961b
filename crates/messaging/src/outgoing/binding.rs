//! Where a new session is bound: somewhere in a range of ports, or where the configuration fixes it.

use std::io;
use std::net::Ipv4Addr;

use lbt::resolution::TransportSession;

use super::Outgoing;
use crate::context::Context;
use crate::error::ContextError;

/// Ports of which a session takes the first that is free, and its session id; one is drawn if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) low: u16,
    pub(super) high: u16,
    pub(super) session_id: Option<u32>,
    /// Its next run will be there too, and nothing but a number of its own will tell the two from one another.
    pub(super) is_fixed: bool,
}

impl Binding {
    fn range(low: u16, high: u16) -> Binding {
        Binding { low, high, session_id: None, is_fixed: false }
    }

    fn fixed(port: u16, session_id: Option<u32>) -> Binding {
        Binding { low: port, high: port, session_id, is_fixed: true }
    }
}

impl Context {
    pub(super) fn rm_binding(&self) -> Binding {
        let config = &self.config;
        Binding::range(config.transport_lbtrm_source_port_low, config.transport_lbtrm_source_port_high)
    }

    pub(super) fn tcp_binding(&self) -> Binding {
        Binding::range(self.config.transport_tcp_port_low, self.config.transport_tcp_port_high)
    }

    pub(super) fn ru_binding(&self) -> Binding {
        Binding::range(self.config.transport_lbtru_port_low, self.config.transport_lbtru_port_high)
    }

    /// Opens a session exactly where receivers are configured to find it.
    pub(super) fn open_fixed_outgoing(
        &mut self,
        at: usize,
        session: TransportSession,
        index: u32,
    ) -> Result<Outgoing, ContextError> {
        let opened = match session {
            TransportSession::LbtRm { key, group } => self.check_own_address(key.source).and_then(|()| {
                let binding = Binding::fixed(key.session.ucast_port, Some(key.session.session_id));
                self.open_rm_outgoing(at, group, index, binding)
            }),
            TransportSession::Tcp { address, session_id } => self
                .check_own_address(*address.ip())
                .and_then(|()| self.open_tcp_outgoing(at, index, Binding::fixed(address.port(), session_id))),
            TransportSession::LbtRu { address, session_id } => self
                .check_own_address(*address.ip())
                .and_then(|()| self.open_ru_outgoing(at, index, Binding::fixed(address.port(), session_id))),
            // No source string reads as one.
            TransportSession::Ipc { .. } => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
        };
        opened.map_err(|error| match error {
            ContextError::Io(e) => {
                io::Error::new(e.kind(), format!("source_static_session {session}: {e}")).into()
            }
            other => other,
        })
    }

    fn check_own_address(&self, address: Ipv4Addr) -> Result<(), ContextError> {
        if address == self.interface {
            return Ok(());
        }
        let what = format!("{address} is not the address of the interface, {}", self.interface);
        Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what).into())
    }
}
