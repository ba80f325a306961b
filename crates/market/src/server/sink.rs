use crate::backbone::LinkUp;

/// A client connection, as the front end numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// One source of one topic, as the carrier numbers them: a topic published by one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// One open item stream of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watcher {
    /// The connection.
    pub client: ClientId,
    /// The stream id that the client chose.
    pub stream_id: i32,
}

/// Where the server's decisions go. All calls are made from its inputs, in the order in which they are to
/// take effect.
pub trait ServerSink {
    /// Sends an RWF message to one client, as it is.
    fn send(&mut self, client: ClientId, msg: &[u8]);
    /// Sends one RWF message to several clients, each time with the stream id of the watcher. There may be
    /// none.
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]);
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
}
