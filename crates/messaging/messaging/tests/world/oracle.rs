//! What is right, from the application's side: of each source and receiver, *sent = delivered + reported
//! lost, in order*.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tickcast_messaging::{
    End, EndReason, FailoverLoss, Handler, Loss, Message, Receiver, SourceInfo, Sqn, StreamId,
    TransportSession,
};
use units::Nanos;

use crate::failover::{Feed, HotCounts, Merged};

/// How a source stopped, if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Sends,
    /// It was deleted, or its context ended in order.
    Ended,
    /// Its process was killed.
    Killed,
}

/// One source from its creation on, and what it has sent.
pub(crate) struct Run {
    pub(crate) topic: String,
    pub(crate) node: usize,
    pub(crate) session: Option<TransportSession>,
    /// Topic number and length of each message.
    pub(crate) sent: Vec<(Sqn, usize)>,
    pub(crate) life: Life,
}

impl Run {
    /// The topic number that comes next.
    pub(crate) fn next(&self) -> Sqn {
        self.sent.last().map_or(Sqn(0), |(last, _)| last.next())
    }
}

/// What all nodes of a world have done, and what was found wrong.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) now: Nanos,
    pub(crate) runs: Vec<Run>,
    /// What is published with hot failover.
    pub(crate) feeds: Vec<Feed>,
    pub(crate) hot: HotCounts,
    /// The weather is fair throughout.
    pub(crate) is_lossless: bool,
    /// Until when each node's sessions may end because it was started, stopped or cut off, and because it was
    /// paused.
    pub(crate) disturbed: Vec<Nanos>,
    pub(crate) paused: Vec<Nanos>,
    pub(crate) wrong: Vec<String>,
    pub(crate) counts: Counts,
    pub(crate) trace: Vec<String>,
}

/// What has happened in a world, so that a test can tell that it did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) streams: u64,
    pub(crate) ended: u64,
    pub(crate) timed_out: u64,
    /// Numbers between the end of one stream of a source and the begin of the next, told by that end alone.
    pub(crate) between: u64,
    /// Messages that a receiver got a second time, in another stream of the same source.
    pub(crate) again: u64,
}

pub(crate) type Shared = Rc<RefCell<Ledger>>;

impl Ledger {
    pub(crate) fn say(&mut self, what: String) {
        let at = self.now.0 as f64 / 1e9;
        self.trace.push(format!("{at:14.6}  {what}"));
    }

    /// The latest source that a session has of a topic.
    fn run_of(&self, topic: &str, session: TransportSession) -> Option<usize> {
        self.runs.iter().rposition(|run| run.topic == topic && run.session == Some(session))
    }

    /// Whether nothing was done to either end that may cost a session.
    pub(crate) fn is_calm(&self, source: usize, receiver: usize, session: TransportSession) -> bool {
        let quiet = |times: &[Nanos], at: usize| self.now > times[at];
        // A receiver of multicast or TCP that was paused finds what has come meanwhile; LBT-RU's sources drop
        // those of whom they hear nothing.
        let may_pause = !matches!(session, TransportSession::LbtRu { .. });
        quiet(&self.disturbed, source)
            && quiet(&self.paused, source)
            && quiet(&self.disturbed, receiver)
            && (may_pause || quiet(&self.paused, receiver))
    }

    pub(crate) fn accuse(&mut self, what: String) {
        self.say(format!("WRONG: {what}"));
        self.wrong.push(what);
    }
}

/// The payload of a message: whose it is, its place, and bytes that follow from both.
pub(crate) fn payload(run: usize, index: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(HEAD));
    bytes.extend_from_slice(&(run as u32).to_be_bytes());
    bytes.extend_from_slice(&(index as u32).to_be_bytes());
    bytes.extend((HEAD..len).map(|i| (i + run * 7 + index * 13) as u8));
    bytes
}

/// Bytes before those that only fill.
pub(crate) const HEAD: usize = 8;

/// What one receiver has heard of one source.
pub(crate) struct Heard {
    pub(crate) receiver: Receiver,
    topic: String,
    session: TransportSession,
    /// Known by the first message.
    pub(crate) run: Option<usize>,
    is_ordered: bool,
    /// The number that comes next.
    pub(crate) next: Option<Sqn>,
    /// Delivered or lost, where there is no order.
    told: HashSet<u32>,
    first: Sqn,
    pub(crate) is_over: bool,
}

/// The application of one node.
pub(crate) struct Ears {
    pub(crate) node: usize,
    pub(crate) ledger: Shared,
    pub(crate) streams: HashMap<(Receiver, StreamId), Heard>,
    /// Which receivers want arrival order.
    pub(crate) unordered: HashSet<Receiver>,
    /// Receivers with hot failover.
    pub(crate) merged: HashMap<Receiver, Merged>,
    /// By receiver and run: up to where its streams have told.
    reached: HashMap<(Receiver, usize), Sqn>,
    /// What streams have told lost that were over before a message said whose they were, each from where to where.
    lost_of_somebody: HashMap<(Receiver, TransportSession), Vec<(Sqn, Sqn)>>,
    /// Messages of a whole world are many: beyond this, events are not traced.
    pub(crate) is_loud: bool,
}

impl Ears {
    pub(crate) fn new(node: usize, ledger: Shared) -> Ears {
        Ears {
            node,
            ledger,
            streams: HashMap::new(),
            unordered: HashSet::new(),
            merged: HashMap::new(),
            reached: HashMap::new(),
            lost_of_somebody: HashMap::new(),
            is_loud: false,
        }
    }

    /// What a receiver hears of a run now.
    pub(crate) fn live(&self, receiver: Receiver, run: usize) -> Option<&Heard> {
        self.streams.values().find(|h| h.receiver == receiver && h.run == Some(run) && !h.is_over)
    }

    fn accuse(&self, receiver: Receiver, stream: StreamId, what: &str) {
        let heard = self.streams.get(&(receiver, stream));
        let whose =
            heard.map(|h| format!(" ({} run {:?}, next {:?}, {})", h.topic, h.run, h.next, h.session));
        let whose = whose.unwrap_or_default();
        let what = format!("node {} {receiver:?} {stream:?}{whose}: {what}", self.node);
        self.ledger.borrow_mut().accuse(what);
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        let what = format!("node {}: {}", self.node, what());
        self.ledger.borrow_mut().say(what);
    }
}

/// Up to where a source was told, if that was not up to where it goes on: what streams told lost that nothing else
/// says the source of counts for it where it joins on, each once.
fn reach_over(mut reached: Sqn, goes_on: Sqn, lost: Option<&mut Vec<(Sqn, Sqn)>>) -> Sqn {
    let Some(lost) = lost else { return reached };
    while reached != goes_on
        && let Some(at) = lost.iter().position(|(first, _)| *first == reached)
    {
        reached = lost.swap_remove(at).1;
    }
    reached
}

impl Heard {
    /// Takes note of numbers; says what is wrong with them.
    fn advance(&mut self, first: Sqn, end: Sqn) -> Option<String> {
        let Some(next) = self.next else { return Some("something before its begin".to_owned()) };
        if self.is_over {
            return Some("something after its end".to_owned());
        }
        if self.is_ordered {
            self.next = Some(end);
            return (first != next).then(|| format!("{first:?} to {end:?} told where {next:?} comes"));
        }
        if next.precedes(end) {
            self.next = Some(end);
        }
        let mut at = first;
        while at != end {
            if !self.told.insert(at.0) {
                return Some(format!("{at:?} is told twice"));
            }
            at = at.next();
        }
        None
    }

    /// How many numbers were passed over without a word.
    fn untold(&self) -> usize {
        let span = self.next.map_or(0, |next| self.first.distance_to(next).max(0) as usize);
        if self.is_ordered { 0 } else { span.saturating_sub(self.told.len()) }
    }
}

impl Handler for Ears {
    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.trace(|| format!("{receiver:?} finds {stream:?} of {} at {}", info.topic, info.transport));
        self.ledger.borrow_mut().counts.streams += 1;
        if self.merged.contains_key(&receiver) {
            return self.found_copy(receiver, stream, info.transport);
        }
        let heard = Heard {
            receiver,
            topic: info.topic.to_owned(),
            session: info.transport,
            run: None,
            is_ordered: !self.unordered.contains(&receiver),
            next: None,
            told: HashSet::new(),
            first: Sqn(0),
            is_over: false,
        };
        if self.streams.insert((receiver, stream), heard).is_some() {
            self.accuse(receiver, stream, "found twice");
        }
    }

    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.trace(|| format!("{receiver:?} {stream:?} begins at {first:?}"));
        if self.merged.contains_key(&receiver) {
            return self.copy_begins(receiver, stream);
        }
        let Some(heard) = self.streams.get_mut(&(receiver, stream)) else {
            return self.accuse(receiver, stream, "begins before it is found");
        };
        heard.first = first;
        if heard.next.replace(first).is_some() {
            self.accuse(receiver, stream, "begins twice");
        }
    }

    fn on_message(&mut self, message: &Message<'_>) {
        if self.merged.contains_key(&message.receiver) {
            return self.hear_copy(message);
        }
        let key = (message.receiver, message.stream);
        let Some(heard) = self.streams.get_mut(&key) else {
            return self.accuse(key.0, key.1, "a message before it is found");
        };
        let mut wrong = heard.advance(message.first_sqn, message.sqn.next());
        let mut ledger = self.ledger.borrow_mut();
        ledger.counts.delivered += 1;
        let word =
            |at: usize| message.payload.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let (run, index) = (word(0).unwrap_or(u32::MAX) as usize, word(4).unwrap_or(u32::MAX) as usize);
        let sent = ledger.runs.get(run).and_then(|r| r.sent.get(index)).copied();
        match sent {
            Some((sqn, len)) if sqn == message.sqn && payload(run, index, len) == message.payload => {}
            _ => wrong = Some(format!("{:?}: not what was sent (run {run}, {index}, {sent:?})", message.sqn)),
        }
        if ledger.runs.get(run).is_some_and(|r| r.topic != heard.topic) {
            wrong = Some("a message of another topic".to_owned());
        }
        if heard.run.is_some_and(|before| before != run) {
            wrong = Some(format!("messages of another source, run {run}, in the same stream"));
        }
        if heard.run.is_none() {
            heard.run = Some(run);
            let reached = self.reached.get(&(key.0, run)).filter(|_| heard.is_ordered).copied();
            let lost = self.lost_of_somebody.get_mut(&(key.0, heard.session));
            let reached = reached.map(|reached| reach_over(reached, heard.first, lost));
            match reached.map_or(0, |reached| reached.distance_to(heard.first)) {
                0 => {}
                missing => {
                    ledger.counts.between += missing.unsigned_abs() as u64;
                    wrong = Some(format!("{missing} numbers from one stream of run {run} to the next"));
                }
            }
        }
        match self.reached.get_mut(&(key.0, run)) {
            Some(reached) if message.sqn.precedes(*reached) => {
                ledger.counts.again += u64::from(heard.is_ordered);
            }
            Some(reached) => *reached = message.sqn.next(),
            None => drop(self.reached.insert((key.0, run), message.sqn.next())),
        }
        drop(ledger);
        if self.is_loud {
            self.trace(|| format!("{:?} {:?} gets {:?} by {:?}", key.0, key.1, message.sqn, message.via));
        }
        if let Some(wrong) = wrong {
            self.accuse(key.0, key.1, &wrong);
        }
    }

    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        self.trace(|| format!("{receiver:?} {stream:?} has lost {} from {:?}", loss.count, loss.first));
        let Some(heard) = self.streams.get_mut(&(receiver, stream)) else {
            return self.accuse(receiver, stream, "a loss before it is found");
        };
        let end = loss.first.plus(loss.count);
        let mut wrong = heard.advance(loss.first, end);
        let mut ledger = self.ledger.borrow_mut();
        ledger.counts.lost += u64::from(loss.count);
        if let Some(run) = heard.run {
            let next = ledger.runs[run].next();
            if next.precedes(end) {
                wrong = Some(format!("a loss up to {end:?} of what was sent up to {next:?}"));
            }
            let reached = self.reached.entry((receiver, run)).or_insert(end);
            if reached.precedes(end) {
                *reached = end;
            }
        }
        drop(ledger);
        if let Some(wrong) = wrong {
            self.accuse(receiver, stream, &wrong);
        }
    }

    fn on_failover_loss(&mut self, receiver: Receiver, _: &str, loss: FailoverLoss) {
        self.lose_copies(receiver, loss);
    }

    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        self.trace(|| format!("{receiver:?} {stream:?} ends: {end:?}"));
        if self.merged.contains_key(&receiver) {
            return self.copy_ends(receiver, stream);
        }
        let Some(heard) = self.streams.get_mut(&(receiver, stream)) else {
            return self.accuse(receiver, stream, "ends before it is found");
        };
        if std::mem::replace(&mut heard.is_over, true) {
            return self.accuse(receiver, stream, "ends twice");
        }
        let heard = &self.streams[&(receiver, stream)];
        if let (None, Some(next)) = (heard.run, heard.next.filter(|next| *next != heard.first)) {
            let lost = self.lost_of_somebody.entry((receiver, heard.session)).or_default();
            lost.push((heard.first, next));
        }
        let mut wrong = Vec::new();
        if heard.untold() > 0 {
            wrong.push(format!("{} numbers neither delivered nor lost", heard.untold()));
        }
        if let (Some(next), Some(ours)) = (end.next, heard.next)
            && next != ours
        {
            wrong.push(format!("ends at {next:?} where {ours:?} comes next"));
        }
        let mut ledger = self.ledger.borrow_mut();
        if end.reason == EndReason::Ended {
            ledger.counts.ended += 1;
        } else {
            ledger.counts.timed_out += 1;
        }
        let run = heard.run.or_else(|| ledger.run_of(&heard.topic, heard.session));
        if let Some(run) = run.map(|run| &ledger.runs[run]) {
            let is_calm = ledger.is_calm(run.node, self.node, heard.session);
            let is_complete = heard.run.is_none() || heard.next == Some(run.next());
            match (end.reason, run.life) {
                (EndReason::Ended, Life::Ended) if !is_complete => {
                    wrong.push(format!(
                        "{:?} were sent, and it has ended without a word of the rest",
                        run.next()
                    ));
                }
                (EndReason::Ended, Life::Sends) => wrong.push("has ended while its source sends".to_owned()),
                (EndReason::Ended, _) => {}
                (reason, Life::Sends) if is_calm => {
                    wrong.push(format!("{reason:?}, with nothing that was done to either end"));
                }
                _ => {}
            }
        }
        drop(ledger);
        wrong.iter().for_each(|wrong| self.accuse(receiver, stream, wrong));
    }
}
