//! Where a new session is bound: somewhere in a range of ports, or where the configuration fixes it.

use std::io;

use lbt::resolution::TransportSession;

use super::Outgoing;
use crate::base::Base;
use crate::error::ContextError;
use crate::publishing::Publishing;

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

impl Publishing {
    pub(super) fn rm_binding(&self, base: &Base) -> Binding {
        let config = &base.config;
        Binding::range(config.transport_lbtrm_source_port_low, config.transport_lbtrm_source_port_high)
    }

    pub(super) fn tcp_binding(&self, base: &Base) -> Binding {
        Binding::range(base.config.transport_tcp_port_low, base.config.transport_tcp_port_high)
    }

    pub(super) fn ru_binding(&self, base: &Base) -> Binding {
        Binding::range(base.config.transport_lbtru_port_low, base.config.transport_lbtru_port_high)
    }

    /// Opens a session exactly where receivers are configured to find it.
    pub(super) fn open_fixed_outgoing(
        &mut self,
        base: &mut Base,
        at: usize,
        session: TransportSession,
        index: u32,
    ) -> Result<Outgoing, ContextError> {
        let opened = match session {
            TransportSession::LbtRm { key, group } => base.check_own_address(key.source).and_then(|()| {
                let binding = Binding::fixed(key.session.ucast_port, Some(key.session.session_id));
                self.open_rm_outgoing(base, at, group, index, binding)
            }),
            TransportSession::Tcp { address, session_id } => {
                base.check_own_address(*address.ip()).and_then(|()| {
                    self.open_tcp_outgoing(base, at, index, Binding::fixed(address.port(), session_id))
                })
            }
            TransportSession::LbtRu { address, session_id } => {
                base.check_own_address(*address.ip()).and_then(|()| {
                    self.open_ru_outgoing(base, at, index, Binding::fixed(address.port(), session_id))
                })
            }
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
}
