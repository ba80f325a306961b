//! What operators should know, and why a message or a connection is refused.

use std::fmt;
use std::time::Duration;

use rwf::DecodeError;

use crate::backbone::{BackboneError, SERVICE_NAME_BYTES_MAX};
use crate::key::ItemKey;
use crate::users::Denial;

/// Why a client's connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// Bytes that are not an RWF message.
    Malformed(DecodeError),
    /// The login was refused; the answer says why.
    LoginRefused,
    /// The user may not log in; the answer says why.
    LoginDenied(Denial),
    /// It has logged out.
    LoggedOut,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Malformed(e) => write!(f, "not an RWF message: {e}"),
            ClientError::LoginRefused => f.write_str("the login was refused"),
            ClientError::LoginDenied(why) => write!(f, "the login is denied: {why}"),
            ClientError::LoggedOut => f.write_str("logged out"),
        }
    }
}

impl std::error::Error for ClientError {}

/// What operators should know of what comes over the backbone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNotice<'a> {
    /// A message about an item cannot be used. The item is suspect until it has been had again.
    Unusable {
        /// Which one.
        item: ItemKey<'a>,
        /// How many more there were since the last one reported.
        held_back: u64,
    },
    /// The two instances of a hot service say different things of an item: it is taken from one of them alone.
    Differs {
        /// Which one.
        item: ItemKey<'a>,
        /// How many more there were since the last one reported.
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
    /// A service of an instance is not taken: a composed service has its name.
    Shadowed {
        /// Its name.
        service: &'a str,
        /// The instance.
        instance: u64,
    },
    /// Messages of a service's stream will never come, in some gaps since that was reported last.
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
    /// A stream of a service has brought nothing for too long, though its instance is heard.
    StreamSilent {
        /// The service.
        service: &'a str,
        /// The instance.
        instance: u64,
        /// How long it is since something came.
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
            ServerNotice::Shadowed { service, instance } => write!(
                f,
                "service {service:?} of instance {instance:016x} is not taken: a composed service of this server has \
                 its name; give one of the two another name"
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
            ServerNotice::StreamSilent { service, instance, quiet } => write!(
                f,
                "nothing of service {service:?} has come from source distributor {instance:016x} for {} ms, though its directory does: the service is lost there until something does. Look at the network, or the subject, that carries the service",
                quiet.as_millis()
            ),
            ServerNotice::HeardAgain { instance, quiet } => write!(
                f,
                "source distributor {instance:016x} is heard again after {} ms. If it was not stopped, p2ps.silence_timeout_ms is to be several times its source_distributor.heartbeat_interval_ms",
                quiet.as_millis()
            ),
            ServerNotice::Differs { item, held_back } => {
                let (name, service, domain) = (String::from_utf8_lossy(item.name), item.service, item.domain);
                write!(
                    f,
                    "item {name:?} of hot service {service} ({domain}): the two source distributors have \
                     different data under one number; it is taken from one of them alone"
                )?;
                if *held_back > 0 {
                    write!(f, "; {held_back} more such items since the last line")?;
                }
                Ok(())
            }
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

/// What the front end gets when an instance's bytes are not what they should be: it is counted, logged,
/// and skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamError {
    /// Not a message of the backbone protocol.
    Malformed(BackboneError),
    /// A payload that is not RWF, or not what it has to be.
    Payload(DecodeError),
    /// A directory that does not mean what it has to mean.
    Directory(rdm::RdmError),
    /// A message of another instance on this source.
    OtherInstance(u64),
}

impl std::fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpstreamError::Malformed(e) => e.fmt(f),
            UpstreamError::Payload(e) => write!(f, "payload: {e}"),
            UpstreamError::Directory(e) => write!(f, "directory: {e}"),
            UpstreamError::OtherInstance(id) => {
                write!(f, "a message of instance {id:016x} on another's source")
            }
        }
    }
}

impl std::error::Error for UpstreamError {}
