use super::base::{ClientId, SourceId, Watcher};
use super::notices::ServerNotice;
use crate::backbone::{HopTimes, LinkUp};
use crate::key::ItemKey;

/// What is wanted of the backbone, and what operators should know. All calls are made from inputs, in the order in
/// which they are to take effect.
pub trait UpstreamSink {
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
    /// Something that operators should know. Of things that may come often not each is reported.
    fn notice(&mut self, notice: &ServerNotice<'_>);
}

/// An update with hop stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampedUpdate<'a> {
    /// Its item, by the service's id that clients see.
    pub key: ItemKey<'a>,
    /// Its number in the stream.
    pub sequence: u64,
    /// The hops that it has passed.
    pub hops: HopTimes,
}

/// Where the server's decisions go, those for clients besides.
pub trait ServerSink: UpstreamSink {
    /// Sends an RWF message to one client, as it is.
    fn send(&mut self, client: ClientId, msg: &[u8]);
    /// Sends one RWF message to several clients, each time with the stream id of the watcher. There may be
    /// none.
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]);
    /// The same for an update whose values the item's image holds. Clients that read too slowly are not sent it: their
    /// streams are added to `refused`, and get the newest values when there is room
    /// ([`PointToPoint::send_due_images`](super::PointToPoint::send_due_images)).
    #[inline]
    fn fan_out_update(&mut self, watchers: &[Watcher], msg: &[u8], refused: &mut Vec<Watcher>) {
        let _ = refused;
        self.fan_out(watchers, msg);
    }
    /// An update with hop stamps is handled from here to [`ServerSink::end_stamped`]. What is sent in between is because
    /// of it. An update that has to wait for an image is not sent in between, and later it has no stamps.
    fn begin_stamped(&mut self, update: &StampedUpdate<'_>) {
        let _ = update;
    }
    /// It is handled.
    fn end_stamped(&mut self) {}
    /// The instance says that the first image of these streams' item has to wait for the provider. Clients are told nothing.
    fn image_waits(&mut self, watchers: &[Watcher], key: ItemKey<'_>) {
        let _ = (watchers, key);
    }
    /// From now on a client is sent no more than so many bytes a second; 0 for what it takes.
    fn set_rate(&mut self, client: ClientId, bytes_per_second: u64) {
        let _ = (client, bytes_per_second);
    }
    /// From now on a client has this priority; before it had [`PRIORITY_DEFAULT`](super::PRIORITY_DEFAULT).
    fn set_priority(&mut self, client: ClientId, priority: u8) {
        let _ = (client, priority);
    }
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
    /// All of a round was sent to a client that is sent rounds ([`PointToPoint::set_at_interval`]): what has changed since
    /// is to be sent with the next one.
    ///
    /// [`PointToPoint::set_at_interval`]: super::PointToPoint::set_at_interval
    fn end_round(&mut self, client: ClientId) {
        let _ = client;
    }
}
