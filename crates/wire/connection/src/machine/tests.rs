//! The machine under a protocol of single letters.

use std::sync::Arc;

use counters::table::RsslConnections;
use counters::{Counter, CounterSet};

use super::*;
use crate::{BacklogFull, SendBuffer};

/// `h` completes the handshake, `m` is a message, `w` one at which the handler wishes the end; `!` is a fault.
#[derive(Debug)]
struct Letters;

#[derive(Debug)]
struct Nothing;

#[derive(Debug)]
struct Letter(SendBuffer<RsslConnections>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Fault,
    Late(TimedOut),
    Ended(Disconnect),
    Unfinished(Disconnect),
    Stopped(Stop),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Application,
    Slow(BacklogFull),
}

impl From<TimedOut> for Reason {
    fn from(late: TimedOut) -> Reason {
        Reason::Late(late)
    }
}

impl From<Disconnect> for Reason {
    fn from(cause: Disconnect) -> Reason {
        Reason::Ended(cause)
    }
}

impl From<Stop> for Reason {
    fn from(stop: Stop) -> Reason {
        Reason::Stopped(stop)
    }
}

impl Memory for Letters {
    fn memory_bytes(&self) -> usize {
        0
    }
}

impl Memory for Nothing {
    fn memory_bytes(&self) -> usize {
        0
    }
}

impl Memory for Letter {
    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

impl Output for Letter {
    type Counters = RsslConnections;
    type Stop = Stop;
    const APPLICATION: Stop = Stop::Application;

    fn stalled(_: u32) -> Stop {
        Stop::Application
    }

    fn buffer(&self) -> &SendBuffer<RsslConnections> {
        &self.0
    }

    fn flush(&mut self) -> &[u8] {
        self.0.pending()
    }

    fn consume(&mut self, count_bytes: usize) {
        self.0.consume(count_bytes);
    }

    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), Stop> {
        self.0.append(&frames[written_bytes..]).map_err(Stop::Slow)
    }
}

impl Wire for Letters {
    type Handshake = Nothing;
    type Open = Nothing;
    type Output = Letter;
    type Reason = Reason;

    fn on_tick(&mut self, _: &mut Nothing, tick: Tick, output: &mut Letter) -> Result<(), Reason> {
        let word: &[u8] = if tick.heard { b"t" } else { b"T" };
        output.0.append(word).map_err(|full| Reason::Stopped(Stop::Slow(full)))
    }

    fn on_closed(&mut self, _: &Reason, output: &mut Letter) {
        let _ = output.0.append(b"z");
    }

    fn unfinished(&self, _: &Nothing, cause: Disconnect) -> Reason {
        Reason::Unfinished(cause)
    }

    fn compression(open: Option<&Nothing>, _: &Letter) -> Option<&'static str> {
        open.map(|Nothing| "none")
    }

    fn close_counter<'c>(reason: &Reason, counters: &'c RsslConnections) -> &'c Counter {
        match reason {
            Reason::Fault => &counters.closed_frame_flags,
            Reason::Late(TimedOut::Handshake { .. }) => &counters.closed_handshake_timeout,
            Reason::Late(TimedOut::Silent { .. }) => &counters.closed_silent,
            Reason::Ended(_) => &counters.closed_disconnected,
            Reason::Unfinished(_) => &counters.closed_unanswered,
            Reason::Stopped(Stop::Application) => &counters.closed_application,
            Reason::Stopped(Stop::Slow(_)) => &counters.closed_slow_consumer,
        }
    }
}

/// Collects messages.
impl Reads<Vec<u8>> for Letters {
    fn read_handshake(
        &mut self,
        _: &mut Nothing,
        bytes: &mut &[u8],
        output: &mut Letter,
        _: &mut Vec<u8>,
    ) -> Result<Option<Opened<Nothing>>, Reason> {
        while let Some((&letter, rest)) = bytes.split_first() {
            *bytes = rest;
            match letter {
                b'h' => {
                    output.0.append(b"a").map_err(Stop::Slow)?;
                    let ping_timeout = Duration::from_secs(30);
                    return Ok(Some(Opened { open: Nothing, ping_timeout, peer_pings: true, we_ping: true }));
                }
                b'!' => return Err(Reason::Fault),
                _ => {}
            }
        }
        Ok(None)
    }

    fn read_frames(
        &mut self,
        _: &mut Nothing,
        bytes: &[u8],
        _: &mut Letter,
        messages: &mut Vec<u8>,
        flow: &mut Flow,
    ) -> Result<(), Reason> {
        for &letter in bytes {
            match letter {
                b'!' => return Err(Reason::Fault),
                b'w' => return Err(Stop::Application.into()),
                _ => messages.push(letter),
            }
            flow.messages += 1;
        }
        Ok(())
    }
}

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

fn counters() -> Arc<RsslConnections> {
    Arc::default()
}

fn machine(counters: &Arc<RsslConnections>) -> Machine<Letters> {
    let output = Letter(SendBuffer::new(100, Arc::clone(counters)));
    Machine::new(at(0), Letters, Nothing, Duration::from_secs(15), output)
}

/// All counts of ends.
fn ends(counters: &RsslConnections) -> u64 {
    let mut values = Vec::new();
    counters.values(&mut values);
    let named = counters.descriptors().iter().zip(values);
    named.filter(|(d, _)| d.name.starts_with("rssl_closed_")).map(|(_, value)| value).sum()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Handshake,
    Open,
    Closed(Reason),
}

/// In which it is, and that all that tells so agrees.
fn state(machine: &Machine<Letters>) -> State {
    let state = match machine.phase {
        Phase::Handshake { .. } => State::Handshake,
        Phase::Open(_) => State::Open,
        Phase::Closed(reason) => State::Closed(reason),
    };
    let counters = machine.counters();
    assert_eq!(counters.active.get(), u64::from(state == State::Open));
    assert_eq!(ends(counters), u64::from(matches!(state, State::Closed(_))));
    assert_eq!(machine.next_wakeup() == Nanos::NEVER, matches!(state, State::Closed(_)));
    assert_eq!(machine.close_reason().map(State::Closed).unwrap_or(state), state);
    assert_eq!((machine.opened().is_some(), machine.compression().is_some()), {
        let is_open = state == State::Open;
        (is_open, is_open)
    });
    state
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Bytes(&'static [u8]),
    /// At these seconds.
    Wakeups(&'static [u64]),
    SignOfLife,
    Restart,
    Ended(Disconnect),
    Stop(Stop),
}

const INPUTS: [Input; 14] = [
    Input::Bytes(b""),
    Input::Bytes(b".."),
    Input::Bytes(b".h"),
    Input::Bytes(b"hm"),
    Input::Bytes(b"h!"),
    Input::Bytes(b"!"),
    Input::Bytes(b"hw"),
    Input::Wakeups(&[9]),
    Input::Wakeups(&[10, 14]),
    Input::Wakeups(&[10, 20, 30]),
    Input::SignOfLife,
    Input::Restart,
    Input::Ended(Disconnect::EndOfStream),
    Input::Stop(FULL),
];

const FULL: Stop = Stop::Slow(BacklogFull { pending_bytes: 1, limit_bytes: 100 });
const SILENT: TimedOut = TimedOut::Silent { limit_ms: 30_000 };
const LATE: TimedOut = TimedOut::Handshake { limit_ms: 15_000 };

/// What an input says of the end.
fn put(machine: &mut Machine<Letters>, input: Input, messages: &mut Vec<u8>) -> Option<Reason> {
    match input {
        Input::Bytes(bytes) => machine.on_bytes(at(0), bytes, messages).err(),
        Input::Wakeups(seconds) => {
            seconds.iter().fold(None, |_, &second| machine.on_wakeup(at(second)).err())
        }
        Input::SignOfLife => {
            machine.on_sign_of_life(at(1));
            machine.close_reason()
        }
        Input::Restart => {
            machine.restart_heartbeat(at(0), Duration::from_secs(60));
            machine.close_reason()
        }
        Input::Ended(cause) => Some(machine.on_disconnected(cause)),
        Input::Stop(stop) => Some(machine.stop(stop)),
    }
}

/// In each state: where each input leads to, and what waits for the socket then.
fn check(begin: &'static [u8], expected: [(State, &str); 14]) {
    for (input, (after, pending)) in INPUTS.into_iter().zip(expected) {
        let counters = counters();
        let mut machine = machine(&counters);
        let _ = machine.on_bytes(at(0), begin, &mut Vec::new());
        let said = put(&mut machine, input, &mut Vec::new());
        assert_eq!(state(&machine), after, "{input:?}");
        assert_eq!(said, machine.close_reason(), "{input:?}");
        assert_eq!(machine.output.0.pending(), pending.as_bytes(), "{input:?}");
        assert_eq!(counters.backlog_bytes.get(), pending.len() as u64, "{input:?}");
        drop(machine);
        assert_eq!((ends(&counters), counters.active.get()), (1, 0), "{input:?}");
        assert_eq!(counters.closed_dropped.get(), u64::from(said.is_none()), "{input:?}");
        assert_eq!(counters.backlog_bytes.get(), 0, "{input:?}");
    }
}

#[test]
fn every_input_before_the_end_of_the_handshake() {
    use State::{Closed, Handshake, Open};
    check(
        b"",
        [
            (Handshake, ""),
            (Handshake, ""),
            (Open, "a"),
            (Open, "a"),
            (Closed(Reason::Fault), "az"),
            (Closed(Reason::Fault), "z"),
            (Closed(Reason::Stopped(Stop::Application)), "az"),
            (Handshake, ""),
            (Handshake, ""),
            (Closed(Reason::Late(LATE)), "z"),
            (Handshake, ""),
            (Handshake, ""),
            (Closed(Reason::Unfinished(Disconnect::EndOfStream)), "z"),
            (Closed(Reason::Stopped(FULL)), "z"),
        ],
    );
}

#[test]
fn every_input_of_an_open_connection() {
    use State::{Closed, Open};
    check(
        b"h",
        [
            (Open, "a"),
            (Open, "a"),
            (Open, "a"),
            (Open, "a"),
            (Closed(Reason::Fault), "az"),
            (Closed(Reason::Fault), "az"),
            (Closed(Reason::Stopped(Stop::Application)), "az"),
            (Open, "a"),
            (Open, "at"),
            (Closed(Reason::Late(SILENT)), "atTz"),
            (Open, "a"),
            (Open, "a"),
            (Closed(Reason::Ended(Disconnect::EndOfStream)), "az"),
            (Closed(Reason::Stopped(FULL)), "az"),
        ],
    );
}

#[test]
fn every_input_after_the_end_gets_the_first_reason_again() {
    check(b"h!", [(State::Closed(Reason::Fault), "az"); 14]);
}

#[test]
fn what_arrives_does_not_move_the_deadline_of_the_handshake() {
    let mut machine = machine(&counters());
    for second in 0..15 {
        assert_eq!(machine.on_bytes(at(second), b".", &mut Vec::new()), Ok(()));
        machine.on_sign_of_life(at(second));
        assert_eq!(machine.next_wakeup(), at(15));
    }
    assert_eq!(machine.on_wakeup(at(15)), Err(Reason::Late(LATE)));
}

#[test]
fn messages_behind_the_handshake_are_read_and_all_is_counted() {
    let counters = counters();
    let (mut machine, mut messages) = (machine(&counters), Vec::new());
    for bytes in [b".hm".as_slice(), b"mm", b"m!m", b"m"] {
        let _ = machine.on_bytes(at(0), bytes, &mut messages);
    }
    assert_eq!(messages, b"mmmm", "nothing behind the fault, nothing after the end");
    assert_eq!((machine.flow_in().bytes, machine.flow_in().messages), (8, 4));
    assert_eq!(counters.bytes_in.get(), 8);
}

#[test]
fn what_is_read_and_signs_of_life_put_off_the_end_and_stalls_are_not_held_against_the_peer() {
    let counters = counters();
    let mut machine = machine(&counters);
    assert_eq!(machine.on_bytes(at(0), b"h", &mut Vec::new()), Ok(()));
    for second in (10..100).step_by(10) {
        match second % 20 {
            0 => machine.on_sign_of_life(at(second)),
            _ => assert_eq!(machine.on_bytes(at(second), b"m", &mut Vec::new()), Ok(())),
        }
        assert_eq!(machine.on_wakeup(at(second)), Ok(()));
    }
    assert_eq!(counters.stalls.get(), 0);
    assert_eq!(machine.on_wakeup(at(500)), Ok(()));
    assert_eq!(counters.stalls.get(), 1);
    let end = [510, 520, 530].map(|second| machine.on_wakeup(at(second)).err());
    assert_eq!(end.into_iter().flatten().next(), Some(Reason::Late(SILENT)));
}

#[test]
fn another_timeout_counts_from_now_on() {
    let mut machine = machine(&counters());
    assert_eq!(machine.on_bytes(at(0), b"h", &mut Vec::new()), Ok(()));
    machine.restart_heartbeat(at(3), Duration::from_secs(6));
    assert_eq!(machine.next_wakeup(), at(5));
    let end = [5, 7, 9].map(|second| machine.on_wakeup(at(second)).err());
    assert_eq!(end, [None, None, Some(Reason::Late(TimedOut::Silent { limit_ms: 6_000 }))]);
}
