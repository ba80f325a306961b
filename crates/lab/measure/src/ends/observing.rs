//! An end whose messages are taken down one by one, in files of observations.

use std::path::{Path, PathBuf};

use observation::{Recorder, Settings, id};

use super::{End, Failure, Link};
use crate::STAMP_BYTES;

/// Where an end writes its observations, and what it calls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observe {
    /// An existing folder. Each link has a file there: NAME-sender-PAIR.obs or NAME-receiver-PAIR.obs.
    pub folder: PathBuf,
    /// Equal at both ends of a run and at no other: the stream of the files, and the beginning of their names. 1 to 64 bytes.
    pub name: String,
    /// Messages of a link that there is room for.
    pub capacity: u64,
}

impl Observe {
    /// From the words of an end, if they have any of it.
    pub(super) fn parse(words: &[String]) -> Result<Option<Observe>, Failure> {
        let value = |key: &str| {
            let at = words.iter().position(|word| word == key);
            at.and_then(|at| words.get(at + 1)).cloned()
        };
        let (Some(folder), Some(name)) = (value("--observe"), value("--observe-as")) else { return Ok(None) };
        let capacity = value("--observe-capacity").ok_or("--observe-capacity VALUE is missing")?;
        let capacity = capacity.parse().map_err(|error| format!("--observe-capacity: {error}"))?;
        Ok(Some(Observe { folder: folder.into(), name, capacity }))
    }

    /// The same as words.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let pairs = [
            ("--observe", self.folder.display().to_string()),
            ("--observe-as", self.name.clone()),
            ("--observe-capacity", self.capacity.to_string()),
        ];
        pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value]).collect()
    }

    /// The file of a link.
    #[must_use]
    pub fn file(&self, is_far: bool, pair: usize) -> PathBuf {
        self.folder.join(format!("{}-{}-{pair}.obs", self.name, point(is_far)))
    }
}

fn point(is_far: bool) -> &'static str {
    if is_far { "receiver" } else { "sender" }
}

/// A link that takes down each message: at the sender before it is sent, at the receiver before anything else is done with it.
pub(super) struct Observing<'a, L> {
    link: &'a mut L,
    recorder: Recorder,
    pair: u16,
    /// The number that was sent last: a message without room is sent again, and was taken down at the first attempt.
    last: Option<u64>,
    file: PathBuf,
}

impl<'a, L: Link> Observing<'a, L> {
    /// Wraps each link; a message's id is its pair and its number.
    pub(super) fn links(end: &End, observe: &Observe, links: &'a mut [L]) -> Result<Vec<Self>, Failure> {
        let wrap = |(pair, link)| {
            let settings = Settings {
                point: point(end.is_far()).to_owned(),
                stream: observe.name.clone(),
                capacity: observe.capacity,
                clock: None,
            };
            let (recorder, file) = (Recorder::new(&settings)?, observe.file(end.is_far(), pair));
            Ok(Observing { link, recorder, pair: u16::try_from(pair)?, last: None, file })
        };
        links.iter_mut().enumerate().map(wrap).collect()
    }

    /// Writes what was observed.
    pub(super) fn write(&self) -> Result<(), Failure> {
        Ok(self.recorder.write(Path::new(&self.file), |_, _| ())?)
    }
}

#[inline]
fn number(message: &[u8]) -> Option<u64> {
    message.get(8..STAMP_BYTES)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

impl<L: Link> Link for Observing<'_, L> {
    const BURST: u64 = L::BURST;

    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        let number = number(message);
        if let Some(new) = number
            && self.last != number
        {
            self.last = number;
            self.recorder.record(id(self.pair, new));
        }
        self.link.send(message)
    }

    #[inline]
    fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        let (recorder, pair) = (&mut self.recorder, self.pair);
        self.link.receive(|message| {
            if let Some(number) = number(message) {
                recorder.record(id(pair, number));
            }
            handle(message);
        })
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Failure> {
        self.link.turn()
    }

    #[inline]
    fn turn_beside_receive(&mut self) -> Result<(), Failure> {
        self.link.turn_beside_receive()
    }
}
