use std::net::SocketAddrV4;

use lbt::config::Order;

use crate::Transport;

/// What a source asks for other than the configuration says. The default asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// The transport; else what `source_transport` and `transport` say for the topic.
    pub transport: Option<Transport>,
    /// Multicast group and port, for LBT-RM; else what the configuration says for the topic. Sources of one
    /// group share a transport session.
    pub group: Option<SocketAddrV4>,
    /// Whether what is sent is retained for receivers that join late or lost it; else what the configuration
    /// says (`late_join`).
    pub late_join: Option<bool>,
}

/// What a receiver asks for other than the configuration says. The default asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverOptions {
    /// Order of delivery; else `ordered_delivery`. Where several receivers of a context hear the same source,
    /// all hear it in topic order if one of them wants that. One that comes later, to a source that was heard in
    /// order of arrival, begins after what was delivered before its turn.
    pub order: Option<Order>,
    /// Several sources of the topic send the same messages, each under a number that the application gave it
    /// ([`Context::send_hot_failover`](crate::Context::send_hot_failover)): the first copy of each is
    /// delivered, in the order of the numbers; messages without one are left out. It goes with topic order
    /// alone, also of other receivers of the context that hear the same sources.
    pub hot_failover: bool,
}

impl ReceiverOptions {
    /// The order in which its sources are heard.
    pub(crate) fn source_order(&self) -> Option<Order> {
        if self.hot_failover { Some(Order::Topic) } else { self.order }
    }
}

/// What a single send asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Nothing more follows soon: what waits of the session goes out with this message.
    pub flush: bool,
    /// The first message of an explicit batch.
    pub batch_start: bool,
    /// The last one; the batch goes out with it.
    pub batch_end: bool,
}

impl SendFlags {
    /// Goes out at once.
    pub const FLUSH: SendFlags = SendFlags { flush: true, batch_start: false, batch_end: false };
    /// Begins an explicit batch.
    pub const BATCH_START: SendFlags = SendFlags { flush: false, batch_start: true, batch_end: false };
    /// Ends an explicit batch.
    pub const BATCH_END: SendFlags = SendFlags { flush: false, batch_start: false, batch_end: true };
}
