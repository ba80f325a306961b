use super::{RsslConnections, WebSocketConnections};
use crate::Counter;

/// Declares the trait, and that each table has all of it.
macro_rules! in_every_table {
    ($($(#[$about:meta])* $counter:ident;)+) => {
        /// What connections count whatever they speak; each protocol has a table with these and its own.
        pub trait ConnectionCounters {
            $($(#[$about])* fn $counter(&self) -> &Counter;)+
        }

        impl ConnectionCounters for RsslConnections {
            $(#[inline] fn $counter(&self) -> &Counter { &self.$counter })+
        }

        impl ConnectionCounters for WebSocketConnections {
            $(#[inline] fn $counter(&self) -> &Counter { &self.$counter })+
        }
    };
}

in_every_table! {
    /// Connections that are past their handshake and not closed.
    active;
    /// Bytes received.
    bytes_in;
    /// Bytes accepted by the socket.
    bytes_out;
    /// Bytes written and not yet accepted by a socket, all connections together.
    backlog_bytes;
    /// Most bytes that one connection had waiting for its socket.
    backlog_high_water_bytes;
    /// Writes refused because a connection's backlog was at its limit.
    backlog_refusals;
    /// Wake-ups that came more than a ping interval late.
    stalls;
    /// Connections discarded without being closed first.
    closed_dropped;
}
