//! What operators should know.

use std::fmt;
use std::time::Duration;

use rdm::dictionary::{DictionaryKind, name_of};
use rwf::DecodeError;

use crate::backbone::SERVICE_NAME_BYTES_MAX;
use crate::key::ItemKey;

/// How a dictionary of a provider differs from the one that clients get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryDifference {
    /// A service goes by a dictionary of another name than the two that are served.
    Name {
        /// The name.
        name: String,
    },
    /// It has another version.
    Version {
        /// Which of the two dictionaries.
        kind: DictionaryKind,
        /// The version there.
        theirs: String,
        /// The version here.
        ours: String,
    },
    /// It has another number.
    Id {
        /// Which of the two dictionaries.
        kind: DictionaryKind,
        /// The number there.
        theirs: u16,
        /// The number here.
        ours: u16,
    },
}

impl fmt::Display for DictionaryDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DictionaryDifference::Name { name } => {
                write!(f, "dictionary {name:?} is not one of those that are served")
            }
            DictionaryDifference::Version { kind, theirs, ours } => {
                write!(f, "dictionary {} has version {theirs:?}, clients get {ours:?}", name_of(*kind))
            }
            DictionaryDifference::Id { kind, theirs, ours } => {
                write!(f, "dictionary {} has DictionaryId {theirs}, clients get {ours}", name_of(*kind))
            }
        }
    }
}

/// What operators should know of a point-to-point server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerNotice {
    /// Providers are held back for it from now on.
    HoldsBack {
        /// What it lacks, in bytes.
        lacks: u64,
        /// How often that happened since it was reported last, for any server, and was not reported.
        unreported: u64,
    },
    /// Providers are not held back for it any more; told if the begin was.
    LetsGo {
        /// For how long they were.
        after: Duration,
    },
    /// It takes less than the floor and is not waited for any more: it will lose messages.
    LeftBehind {
        /// What it takes, in bytes a second.
        rate: u64,
        /// What it lacks, in bytes.
        lacks: u64,
    },
    /// It follows a stream no more of which it lacked much, and is not waited for for a while.
    GivesUp {
        /// What it lacked, in bytes.
        lacks: u64,
    },
    /// It was behind when its last link ended, so long ago, and is not waited for on its new one yet.
    StillBehind {
        /// How long ago it was left behind.
        since: Duration,
        /// For how long it is not waited for.
        left: Duration,
    },
    /// It has caught up and is waited for again.
    CaughtUp {
        /// How long it was left behind.
        after: Duration,
    },
}

impl fmt::Display for PeerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerNotice::HoldsBack { lacks, unreported } => {
                write!(f, "providers are held back for it: it lacks {lacks} bytes")?;
                if *unreported > 0 {
                    write!(f, "; {unreported} more such holds since the last line")?;
                }
                Ok(())
            }
            PeerNotice::LetsGo { after } => {
                write!(f, "providers were held back for it for {} ms", after.as_millis())
            }
            PeerNotice::LeftBehind { rate, lacks } => write!(
                f,
                "it takes {rate} bytes/s, less than the floor, and lacks {lacks} bytes: providers are not held back for it any more, and it will lose messages"
            ),
            PeerNotice::GivesUp { lacks } => write!(
                f,
                "it follows a stream no more of which it lacks {lacks} bytes: providers are not held back for it for a while"
            ),
            PeerNotice::StillBehind { since, left } => write!(
                f,
                "it was behind when its last link ended, {} ms ago: providers are not held back for it for {} ms, and it may lose messages",
                since.as_millis(),
                left.as_millis()
            ),
            PeerNotice::CaughtUp { after } => {
                write!(
                    f,
                    "it has caught up after {} ms: providers are held back for it again",
                    after.as_millis()
                )
            }
        }
    }
}

/// What is wrong with a provider that works nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderNotice<'a> {
    /// Clients get another dictionary than the provider's.
    Dictionary(&'a DictionaryDifference),
    /// A service that it offers is not taken.
    Service {
        /// Its name.
        name: &'a str,
        /// Why.
        why: RefusedService,
    },
    /// Others publish a service that it publishes: items that these have come from them, and from it when they
    /// are lost.
    SharesService {
        /// The service.
        service: &'a str,
        /// How many publish it now.
        providers: usize,
    },
    /// It publishes a service no longer, or not now, and others do.
    LeavesService {
        /// The service.
        service: &'a str,
        /// How many publish it now.
        providers: usize,
        /// Its items that come from another provider now.
        moved: usize,
        /// Its items that no other provider has.
        suspect: usize,
    },
    /// A message of it could not be read. Of these not each is reported, but how many were not.
    Unreadable {
        /// The item that is suspect until its next image, if it is known.
        item: Option<ItemKey<'a>>,
        /// What is wrong with the message.
        error: &'a DecodeError,
        /// How many more there were since the last one reported.
        held_back: u64,
    },
    /// It has as many items open as it takes, and others wait for that.
    OpenLimit {
        /// The service.
        service: &'a str,
        /// The most items it takes.
        limit: u64,
    },
}

/// Why a service of a provider is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedService {
    /// A non-interactive provider publishes it, or did so since this instance began.
    Published,
    /// It is asked for at interactive providers, or was since this instance began.
    AskedFor,
    /// Its id is another service's, there are too many services, or its description is too long.
    Unfit,
    /// Its name cannot be that of a topic: it is too long, or has a zero byte.
    Unnamable,
    /// Another service of the same provider has its name here.
    Twin,
    /// The provider has it from here.
    Loop,
}

impl fmt::Display for ProviderNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderNotice::Dictionary(difference) => difference.fmt(f),
            ProviderNotice::Service { name, why } => {
                let why = match why {
                    RefusedService::Published => "a non-interactive provider publishes it",
                    RefusedService::AskedFor => "it is asked for at interactive providers",
                    RefusedService::Unfit => {
                        "its id is another service's, there are too many, or its description is too long"
                    }
                    RefusedService::Loop => "the provider has it from here; it is taken when that is over",
                    RefusedService::Twin => "another service of this provider has that name here",
                    RefusedService::Unnamable => {
                        let (bytes, max) = (name.len(), SERVICE_NAME_BYTES_MAX);
                        return write!(
                            f,
                            "service {name:?} is not taken: its name of {bytes} bytes, 1 to {max} without a zero \
                             are allowed, cannot be that of a topic"
                        );
                    }
                };
                write!(f, "service {name:?} is not taken: {why}")
            }
            ProviderNotice::SharesService { service, providers } => {
                write!(
                    f,
                    "service {service:?} is published by {providers} providers; each item comes from one of them"
                )
            }
            ProviderNotice::LeavesService { service, providers, moved, suspect } => write!(
                f,
                "service {service:?} is lost at this provider, {providers} publish it: {moved} items come from another one now, {suspect} are suspect"
            ),
            ProviderNotice::Unreadable { item, error, held_back } => {
                match item {
                    Some(key) => {
                        let name = String::from_utf8_lossy(key.name);
                        write!(f, "item {name:?} ({}) is suspect until its next image: ", key.domain)?;
                    }
                    None => f.write_str("a message about no known item is dropped: ")?,
                }
                write!(f, "{error}")?;
                if *held_back > 0 {
                    write!(f, "; {held_back} more such messages since the last line")?;
                }
                Ok(())
            }
            ProviderNotice::OpenLimit { service, limit } => {
                write!(f, "service {service:?}: items wait, as no more than {limit} are taken")
            }
        }
    }
}
