use std::fmt;
use std::time::Duration;

use crate::backbone::{LinkUp, SERVICE_NAME_BYTES_MAX};
use crate::key::ItemKey;

/// A client connection, as the front end numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// One source of one topic, as the carrier numbers them: a topic published by one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// One open item stream of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watcher {
    /// The connection.
    pub client: ClientId,
    /// The stream id that the client chose.
    pub stream_id: i32,
}

/// What operators should know of what comes over the backbone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNotice<'a> {
    /// A message about an item cannot be used. The item is suspect until it has been had again.
    Unusable {
        /// Which one.
        item: ItemKey<'a>,
        /// How many more there were since the last one told.
        held_back: u64,
    },
    /// An instance has another id for a service than clients see.
    Renumbered {
        /// Its name.
        service: &'a str,
        /// The instance.
        instance: u64,
        /// Its id there.
        theirs: u16,
        /// Its id for clients.
        ours: u16,
    },
    /// A service of an instance is not taken: its name cannot be that of a topic.
    Unnamable {
        /// Its name.
        service: &'a str,
        /// The instance.
        instance: u64,
    },
    /// Messages of a service's stream will never come, in some gaps since that was told last.
    Lost {
        /// The service.
        service: &'a str,
        /// The instance that sent them.
        instance: u64,
        /// The gaps.
        gaps: u64,
        /// The messages.
        messages: u64,
    },
    /// An instance whose link stands has said nothing for too long: its services are lost.
    Silent {
        /// The instance.
        instance: u64,
        /// How long it is since it was heard.
        quiet: Duration,
    },
    /// It was heard again.
    HeardAgain {
        /// The instance.
        instance: u64,
        /// How long it had said nothing.
        quiet: Duration,
    },
}

impl fmt::Display for ServerNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerNotice::Renumbered { service, instance, theirs, ours } => {
                write!(
                    f,
                    "service {service:?} has id {theirs} at instance {instance:016x}, clients see it as {ours}"
                )
            }
            ServerNotice::Unnamable { service, instance } => write!(
                f,
                "service {service:?} of instance {instance:016x} is not taken: its name of {} bytes, \
                 1 to {SERVICE_NAME_BYTES_MAX} without a zero are allowed, cannot be that of a topic",
                service.len()
            ),
            ServerNotice::Lost { service, instance, gaps, messages } => write!(
                f,
                "{messages} messages of service {service:?} from source distributor {instance:016x} are lost, in {gaps} gaps: the items that they were about get new images"
            ),
            ServerNotice::Silent { instance, quiet } => write!(
                f,
                "source distributor {instance:016x} has not been heard for {} ms: its services are lost until it is",
                quiet.as_millis()
            ),
            ServerNotice::HeardAgain { instance, quiet } => write!(
                f,
                "source distributor {instance:016x} is heard again after {} ms. If it was not stopped, p2ps.silence_timeout_ms is to be several times its source_distributor.heartbeat_interval_ms",
                quiet.as_millis()
            ),
            ServerNotice::Unusable { item, held_back } => {
                let (name, service, domain) = (String::from_utf8_lossy(item.name), item.service, item.domain);
                write!(
                    f,
                    "item {name:?} of service {service} ({domain}) is suspect: a message about it cannot be used"
                )?;
                if *held_back > 0 {
                    write!(f, "; {held_back} more such messages since the last line")?;
                }
                Ok(())
            }
        }
    }
}

/// Where the server's decisions go. All calls are made from its inputs, in the order in which they are to
/// take effect.
pub trait ServerSink {
    /// Sends an RWF message to one client, as it is.
    fn send(&mut self, client: ClientId, msg: &[u8]);
    /// Sends one RWF message to several clients, each time with the stream id of the watcher. There may be
    /// none.
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]);
    /// Something that a client has asked for was done, and there is more. Returns whether it may be done now; if
    /// not, it waits for [`PointToPoint::go_on`](super::PointToPoint::go_on).
    fn admits_more(&mut self, client: ClientId) -> bool {
        let _ = client;
        true
    }
    /// Whether so much waits for a client that images it has not asked for in this moment had better come later, when
    /// it has taken that ([`PointToPoint::send_due_images`](super::PointToPoint::send_due_images)).
    fn lags(&mut self, client: ClientId) -> bool {
        let _ = client;
        false
    }
    /// Joins the topic `tickcast.service.NAME`; each instance that publishes it becomes a source.
    fn subscribe(&mut self, service: &str);
    /// Leaves that topic.
    fn unsubscribe(&mut self, service: &str);
    /// Opens a link to the instance that publishes the directory source; the carrier knows its address.
    fn connect(&mut self, instance: u64, directory: SourceId);
    /// Closes the link.
    fn disconnect_link(&mut self, instance: u64);
    /// Sends a message over a link.
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>);
    /// Something that operators should know. Of things that may come often not each is told.
    fn notice(&mut self, notice: &ServerNotice<'_>);
}
