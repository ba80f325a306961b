use std::fmt;
use std::str::FromStr;

use lbt::config::Order;
use net::WaitStrategy;

config::choice! {
    /// What carries a source's messages.
    pub enum Transport {
        /// Reliable multicast.
        LbtRm = "lbtrm",
        /// TCP: receivers connect to the source.
        Tcp = "tcp",
        /// Shared memory of one host.
        LbtIpc = "lbtipc",
        /// Reliable unicast: datagrams to each receiver.
        LbtRu = "lbtru",
    }
}

config::choice! {
    /// Values for one purpose, which count where nothing sets their keys.
    pub enum Preset {
        /// The shortest way of each message: a datagram for each, no limit of the data rate, threads that never
        /// sleep, early repair.
        Latency = "latency",
        /// The most bytes: long datagrams that are filled (networks with an MTU of 9000), large buffers.
        Throughput = "throughput",
    }
}

config::choice! {
    /// Whether a source of reliable multicast adapts its data rate.
    pub enum CongestionControl {
        /// The data rate limit is the rate.
        None = "none",
        /// Receivers report, and the rate moves between a minimum and the limit.
        Adaptive = "adaptive",
    }
}

config::choice! {
    /// Who waits for whom in a session of shared memory.
    pub enum IpcBehavior {
        /// The source never waits; a receiver that is overtaken loses messages, and is told so.
        SourcePaced = "source_paced",
        /// The slowest receiver sets the pace.
        ReceiverPaced = "receiver_paced",
    }
}

config::choice! {
    /// By which way the packets of LBT-RM reach the network; they are the same.
    pub enum Carrier {
        /// Ordinary sockets.
        Socket = "socket",
        /// AF_XDP: past the kernel's network stack. See `docs/kernel-bypass.md`.
        AfXdp = "af_xdp",
    }
}

config::choice! {
    /// Where in the kernel AF_XDP takes frames.
    pub enum AfXdpMode {
        /// In the driver where it can, else behind it.
        Auto = "auto",
        /// In the driver; an error where it cannot.
        Native = "native",
        /// Behind the driver, with any interface; on veth the faster one.
        Generic = "generic",
    }
}

impl AfXdpMode {
    pub(crate) fn mode(self) -> net::xdp::XdpMode {
        match self {
            AfXdpMode::Auto => net::xdp::XdpMode::Auto,
            AfXdpMode::Native => net::xdp::XdpMode::Native,
            AfXdpMode::Generic => net::xdp::XdpMode::Generic,
        }
    }
}

config::choice! {
    /// What a slow receiver of a session means for the others.
    pub enum ReceiverBehavior {
        /// The slowest receiver sets the pace: sends are refused until it has caught up.
        Normal = "normal",
        /// The source sets the pace: a receiver that falls behind loses messages, and is told so.
        SourcePaced = "source_paced",
    }
}

config::choice! {
    /// In which order a topic's messages are delivered.
    pub enum OrderedDelivery {
        /// In the order in which they were sent; what comes after a gap waits until it is closed or final.
        Topic = "topic",
        /// In the order in which they arrive.
        Arrival = "arrival",
    }
}

impl OrderedDelivery {
    /// The order meant.
    #[must_use]
    pub fn order(self) -> Order {
        match self {
            OrderedDelivery::Topic => Order::Topic,
            OrderedDelivery::Arrival => Order::Arrival,
        }
    }
}

config::choice! {
    /// How a thread waits for work.
    pub enum Wait {
        /// Blocks in the kernel until there is work. Leaves the CPU to others.
        Block = "block",
        /// Looks a thousand times more before it blocks.
        Backoff = "backoff",
        /// Lets other threads of the CPU run between two looks.
        Yield = "yield",
        /// Never gives the CPU away: the shortest reaction, where each such thread has a CPU of its own.
        Spin = "spin",
    }
}

impl Wait {
    /// The strategy meant.
    #[must_use]
    pub fn strategy(self) -> WaitStrategy {
        match self {
            Wait::Block => WaitStrategy::Block,
            Wait::Backoff => WaitStrategy::Backoff { spins: 1000 },
            Wait::Yield => WaitStrategy::Yield,
            Wait::Spin => WaitStrategy::Spin,
        }
    }
}

/// Which transport the sources of a topic, or of all topics with a prefix, have: `px.* = lbtrm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicTransport {
    /// The topic, or the prefix.
    name: String,
    is_prefix: bool,
    /// The transport.
    pub transport: Transport,
}

impl TopicTransport {
    /// Whether it is about the topic.
    #[must_use]
    pub fn fits(&self, topic: &str) -> bool {
        if self.is_prefix { topic.starts_with(&self.name) } else { topic == self.name }
    }
}

impl FromStr for TopicTransport {
    type Err = String;

    fn from_str(text: &str) -> Result<TopicTransport, String> {
        let (pattern, transport) = text.rsplit_once('=').ok_or("has no `=`")?;
        let (pattern, transport) = (pattern.trim(), transport.trim());
        let found = Transport::ALL.iter().find(|t| t.name() == transport);
        let names = || Transport::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
        let transport = *found.ok_or_else(|| format!("`{transport}` is none of {}", names()))?;
        let (name, is_prefix) = match pattern.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (pattern, false),
        };
        if name.contains('*') {
            return Err("a `*` stands at the end of the topic alone".to_owned());
        }
        if name.is_empty() && !is_prefix {
            return Err("has no topic before the `=`".to_owned());
        }
        Ok(TopicTransport { name: name.to_owned(), is_prefix, transport })
    }
}

impl fmt::Display for TopicTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{}{star} = {}", self.name, self.transport)
    }
}

config::text_type!(TopicTransport, "a topic and its transport", "topic = transport", example "px.* = lbtrm");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_for_one_topic_or_for_a_prefix() {
        let rule = |text: &str| text.parse::<TopicTransport>().expect(text);
        assert!(rule("px.* = lbtrm").fits("px.eq") && !rule("px.* = lbtrm").fits("p"));
        assert!(rule("px=lbtrm").fits("px") && !rule("px=lbtrm").fits("px.eq"));
        assert!(rule("*=lbtrm").fits("anything"));
        assert_eq!(rule("px.*=lbtrm").to_string(), "px.* = lbtrm");
        for bad in ["px", "= lbtrm", "a*b = lbtrm", "px = pigeon"] {
            assert!(bad.parse::<TopicTransport>().is_err(), "{bad}");
        }
    }
}
