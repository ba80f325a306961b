//! What callbacks want done: it waits until the context is free and has room for it.

use std::collections::{HashMap, HashSet};

use messaging::{Asked, Context, SendError, SendFlags, Source};

use crate::error::Failure;

/// Most sends and answers that wait, and most bytes of them.
const ACTIONS_MAX: usize = 4_096;
const BYTES_MAX: usize = 64 << 20;
/// Most of those of one source, and of answers: the others' share.
const OWN_ACTIONS_MAX: usize = ACTIONS_MAX / 2;
const OWN_BYTES_MAX: usize = BYTES_MAX / 2;

/// Sends and answers in the order in which callbacks asked for them. A source that has no room holds up its own
/// messages alone.
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: Vec<Waiting>,
    /// Their payloads, in their order, with those between that are of no use any more.
    bytes: Vec<u8>,
    useless: usize,
    /// Who has something waiting; answers (no source) never wait for room.
    owners: HashMap<Owner, Owned>,
    /// Sources of which one was refused for want of room here, in bits.
    refused: HashSet<u64>,
    /// Counts the runs.
    run: u64,
    /// The first that was refused for good and is not told yet.
    failed: Option<Failure>,
}

/// The source of what waits, in bits; none for answers.
type Owner = Option<u64>;

#[derive(Clone, Copy)]
struct Waiting {
    action: Action,
    start: usize,
    length: usize,
}

#[derive(Default)]
struct Owned {
    /// So many wait; at least one.
    count: usize,
    bytes: usize,
    /// The last run that found no room.
    blocked_in: u64,
}

/// Something to do with a payload.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Send(Source, SendFlags),
    SendHotFailover(Source, u64, SendFlags),
    Respond(Asked),
}

impl Action {
    /// Does it; returns the number of the message, 0 of an answer.
    #[inline(always)]
    pub(crate) fn run(&self, context: &mut Context, payload: &[u8]) -> Result<u32, Failure> {
        let sent = match *self {
            Action::Send(source, flags) => context.send_flagged(source, flags, &[payload]),
            Action::SendHotFailover(source, number, flags) => {
                context.send_hot_failover(source, number, flags, &[payload])
            }
            Action::Respond(asked) => {
                return context.respond(asked, payload).map(|()| 0).map_err(Failure::Io);
            }
        };
        sent.map(|sqn| sqn.0).map_err(Failure::Send)
    }

    fn owner(&self) -> Owner {
        self.source().map(Source::to_bits)
    }

    /// Whose message it is.
    pub(crate) fn source(&self) -> Option<Source> {
        match *self {
            Action::Send(source, _) | Action::SendHotFailover(source, ..) => Some(source),
            Action::Respond(_) => None,
        }
    }
}

impl Deferred {
    /// Takes one down.
    pub(crate) fn push(&mut self, action: Action, payload: &[u8]) -> Result<(), Failure> {
        let length = payload.len();
        if self.bytes.len() + length > BYTES_MAX {
            self.close_up();
        }
        let owner = action.owner();
        let (count, bytes) = self.owners.get(&owner).map_or((0, 0), |owned| (owned.count, owned.bytes));
        // One that is longer than its share may wait alone.
        let is_over = count >= OWN_ACTIONS_MAX || count > 0 && bytes + length > OWN_BYTES_MAX;
        if is_over || self.waiting.len() >= ACTIONS_MAX || self.bytes.len() + length > BYTES_MAX {
            self.refused.extend(owner);
            return Err(Failure::Send(SendError::WouldBlock));
        }
        self.waiting.push(Waiting { action, start: self.bytes.len(), length });
        self.bytes.extend_from_slice(payload);
        let owned = self.owners.entry(owner).or_default();
        (owned.count, owned.bytes) = (count + 1, bytes + length);
        Ok(())
    }

    /// The sources that were refused room here, and have it now.
    #[inline]
    pub(crate) fn take_refused(&mut self) -> Vec<u64> {
        if self.refused.is_empty() {
            return Vec::new();
        }
        self.find_room()
    }

    #[cold]
    fn find_room(&mut self) -> Vec<u64> {
        if self.waiting.len() > ACTIONS_MAX / 2 || self.bytes.len() - self.useless > BYTES_MAX / 2 {
            return Vec::new();
        }
        let (owners, refused) = (&self.owners, &mut self.refused);
        refused.extract_if(|source| !owners.contains_key(&Some(*source))).collect()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether messages of this source wait, which others of it must not overtake.
    #[inline]
    pub(crate) fn is_before(&self, source: Source) -> bool {
        !self.waiting.is_empty() && self.owners.contains_key(&Some(source.to_bits()))
    }

    /// The first error of what was done since this was asked last.
    #[inline]
    pub(crate) fn take_failure(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Gives up what waits; how many that were.
    pub(crate) fn give_up(&mut self) -> usize {
        let count = self.waiting.len();
        (self.waiting, self.bytes, self.useless) = Default::default();
        self.owners.clear();
        self.refused.clear();
        count
    }

    /// Does what the transports take, each source's in order, nothing of the source `held`.
    #[inline]
    pub(crate) fn run(&mut self, context: &mut Context, held: Option<Source>) {
        if !self.waiting.is_empty() {
            self.run_all(context, held);
        }
    }

    #[cold]
    fn run_all(&mut self, context: &mut Context, held: Option<Source>) {
        self.run += 1;
        let mut blocked = 0;
        if let Some(owned) = held.and_then(|source| self.owners.get_mut(&Some(source.to_bits()))) {
            (owned.blocked_in, blocked) = (self.run, 1);
        }
        let (mut kept, mut at) = (0, 0);
        while at < self.waiting.len() && blocked < self.owners.len() {
            let Waiting { action, start, length } = self.waiting[at];
            at += 1;
            let owner = action.owner();
            let is_blocked = self.owners.get(&owner).is_some_and(|owned| owned.blocked_in == self.run);
            let result = match is_blocked {
                true => Err(Failure::Send(SendError::WouldBlock)),
                false => action.run(context, &self.bytes[start..start + length]),
            };
            if matches!(result, Err(Failure::Send(SendError::WouldBlock))) {
                if let Some(owned) = self.owners.get_mut(&owner).filter(|_| !is_blocked) {
                    owned.blocked_in = self.run;
                    blocked += 1;
                }
                self.waiting[kept] = self.waiting[at - 1];
                kept += 1;
                continue;
            }
            self.forget(owner, length);
            if let Err(failure) = result {
                self.failed.get_or_insert(failure);
            }
        }
        self.waiting.drain(kept..at);
        if self.waiting.is_empty() {
            self.bytes.clear();
            self.useless = 0;
        } else if self.useless > self.bytes.len() / 2 {
            self.close_up();
        }
    }

    /// One of them was done.
    fn forget(&mut self, owner: Owner, length: usize) {
        self.useless += length;
        if let Some(owned) = self.owners.get_mut(&owner) {
            (owned.count, owned.bytes) = (owned.count - 1, owned.bytes - length);
            if owned.count == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    /// Moves the payloads together.
    fn close_up(&mut self) {
        let mut end = 0;
        for Waiting { start, length, .. } in &mut self.waiting {
            self.bytes.copy_within(*start..*start + *length, end);
            (*start, end) = (end, end + *length);
        }
        self.bytes.truncate(end);
        self.useless = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use messaging::{MessagingConfig, SourceOptions, Transport};

    use super::*;
    use crate::callbacks::AskedValue;

    /// A context with a source of LBT-RM without room for a while, and one of TCP, whose clients are none.
    fn blocked() -> (Context, Source, Source) {
        static TESTS: AtomicU32 = AtomicU32::new(0);
        let test = TESTS.fetch_add(1, Ordering::Relaxed);
        let port = 24_000 + std::process::id() % 2_000;
        let mut settings = vec![
            "interface=127.0.0.1".to_owned(),
            format!("resolver.multicast_port={port}"),
            format!("lbtrm.destination_port={port}"),
            format!("lbtrm.multicast_address=239.255.94.{test}"),
            "lbtrm.data_rate_limit_bits_per_second=100000".to_owned(),
            "lbtrm.retransmit_rate_limit_bits_per_second=0".to_owned(),
            "linger_us=0".to_owned(),
        ];
        for port in ["lbtrm.source_port", "tcp.port"] {
            settings.push(format!("{port}_low=30000"));
            settings.push(format!("{port}_high=40000"));
        }
        let config = MessagingConfig::load(None, settings).expect("sound");
        let mut context = Context::standalone(&config).expect("loopback is there");
        let [slow, free] = [Transport::LbtRm, Transport::Tcp].map(|transport| {
            let options = SourceOptions { transport: Some(transport), ..SourceOptions::default() };
            context.create_source("c.deferred", &options).expect("a port is free")
        });
        while context.send(slow, &[&[0; 60_000]]).is_ok() {}
        (context, slow, free)
    }

    fn send(deferred: &mut Deferred, source: Source, payload: &[u8]) {
        deferred.push(Action::Send(source, SendFlags::default()), payload).expect("there is room");
    }

    #[test]
    fn an_error_is_told_though_what_follows_it_has_to_wait() {
        let (mut context, slow, _) = blocked();
        let mut deferred = Deferred::default();
        // Nobody can be connected to there.
        let nobody = AskedValue { index: 0, address: u32::MAX, port: 1 };
        deferred.push(Action::Respond(nobody.into()), b"answer").expect("there is room");
        send(&mut deferred, slow, b"later");
        deferred.run(&mut context, None);
        assert!(matches!(deferred.take_failure(), Err(Failure::Io(_))));
        deferred.run(&mut context, None);
        assert!(deferred.take_failure().is_ok(), "it is told once");
        assert_eq!(deferred.len(), 1);
    }

    #[test]
    fn a_source_without_room_holds_up_its_own_messages_alone_and_keeps_their_order() {
        let (mut context, slow, free) = blocked();
        let mut deferred = Deferred::default();
        for round in 0..5_u8 {
            send(&mut deferred, slow, &vec![round; 3 * usize::from(round)]);
            send(&mut deferred, free, &vec![round; 500]);
        }
        deferred.run(&mut context, None);
        assert!(deferred.is_before(slow) && !deferred.is_before(free));
        assert_eq!(context.send(free, &[b"next"]).expect("there is room").0, 5, "all five went before");
        let of_slow = |deferred: &Deferred| -> Vec<Vec<u8>> {
            let payload = |one: &Waiting| deferred.bytes[one.start..one.start + one.length].to_vec();
            deferred.waiting.iter().map(payload).collect()
        };
        let expected: Vec<_> = (0..5_u8).map(|round| vec![round; 3 * usize::from(round)]).collect();
        assert_eq!(of_slow(&deferred), expected);
        assert!(deferred.bytes.len() <= 60, "what was sent takes no room");
        // One that is held is not tried, though it had room.
        send(&mut deferred, free, b"held");
        deferred.run(&mut context, Some(free));
        assert!(deferred.is_before(free));
        deferred.run(&mut context, None);
        assert!(!deferred.is_before(free));
        assert_eq!((deferred.give_up(), deferred.len(), deferred.is_before(slow)), (5, 0, false));
    }

    #[test]
    fn what_waits_is_bounded_in_all_and_for_each_source() {
        let (_, slow, free) = blocked();
        let action = |source| Action::Send(source, SendFlags::default());
        let mut deferred = Deferred::default();
        let fill = |deferred: &mut Deferred, source, piece: &[u8]| {
            (0..).take_while(|_| deferred.push(action(source), piece).is_ok()).count()
        };
        let piece = vec![0; BYTES_MAX / 8];
        assert_eq!([slow, free].map(|source| fill(&mut deferred, source, &piece)), [4, 4]);
        let answers = Action::Respond(AskedValue::default().into());
        assert!(deferred.push(answers, &piece).is_err(), "nobody has room");
        let mut deferred = Deferred::default();
        assert_eq!(fill(&mut deferred, slow, b""), OWN_ACTIONS_MAX);
        assert!(deferred.push(answers, b"").is_ok(), "one source leaves room for others");
        assert_eq!(fill(&mut deferred, free, b""), OWN_ACTIONS_MAX - 1);
    }

    #[test]
    fn who_was_refused_room_is_named_when_there_is_some() {
        let (mut context, slow, free) = blocked();
        let mut deferred = Deferred::default();
        for source in [free, slow] {
            while deferred.push(Action::Send(source, SendFlags::default()), b"x").is_ok() {}
        }
        assert_eq!(deferred.take_refused(), []);
        deferred.run(&mut context, None);
        assert_eq!(deferred.take_refused(), [free.to_bits()], "the other one waits still");
        assert_eq!(deferred.take_refused(), [], "once");
        deferred.give_up();
        assert_eq!(deferred.take_refused(), []);
    }
}
