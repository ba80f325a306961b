//! A node of the random tests of real processes (`interop/processes`), in Rust: `node DIRECTORY NAME LIFETIME_S
//! [KEY=VALUE]...`. `interop/processes/README.md` says what it is told and what it writes.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::exit;
use std::time::{Duration, Instant};

use testkit::child::{Child, fork};
use tickcast_messaging::{
    CallError, Context, ContextCounters, EmbeddedContext, EmbeddedSource, End, EndReason, EventQueue, Forked,
    Handler, Left, Loss, Message, MessagingConfig, QueueError, Receiver, ReceiverOptions, SendError, Source,
    SourceInfo, SourceOptions, Sqn, StreamId, Transport,
};

const HEAD: usize = 8;
const LONGEST: usize = 20_000;
const AT_ONCE: usize = 1_000;
/// Events that are dispatched at once.
const EVENTS: usize = 4_096;
/// Messages more of each source while another thread closes.
const WHILE_CLOSING: u32 = 200;

type Done = Result<(), Box<dyn Error>>;

fn length_of(run: u32, index: u32) -> usize {
    let mixed = run.wrapping_mul(2_654_435_761).wrapping_add(index.wrapping_mul(40_503));
    let mixed = mixed ^ (mixed >> 15);
    match mixed % 200 {
        0 => LONGEST,
        1..10 => 3_000,
        _ => HEAD + (mixed >> 8) as usize % 200,
    }
}

fn payload(length: usize, run: u32, index: u32) -> Vec<u8> {
    let mut bytes = [run.to_be_bytes(), index.to_be_bytes()].concat();
    let begin = run.wrapping_mul(7).wrapping_add(index.wrapping_mul(13)) as usize;
    bytes.extend((HEAD..length).map(|i| begin.wrapping_add(i) as u8));
    bytes
}

/// One line is one write to a file that is appended to: what was written stays, however the process ends.
struct Log(File);

impl Log {
    fn say(&mut self, line: &str) {
        let line = line.replace('\n', " ") + "\n";
        if self.0.write(line.as_bytes()).ok() != Some(line.len()) {
            exit(71);
        }
    }
}

impl Handler for Log {
    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.say(&format!("found {} {} {} {}", receiver.to_bits(), stream.0, info.topic, info.transport));
    }

    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.say(&format!("begin {} {} {}", receiver.to_bits(), stream.0, first.0));
    }

    fn on_message(&mut self, message: &Message<'_>) {
        let word = |at: usize| message.payload.get(at..at + 4).and_then(|b| b.try_into().ok());
        let run = word(0).map_or(0, u32::from_be_bytes);
        let index = word(4).map_or(0, u32::from_be_bytes);
        let length = message.payload.len();
        let is_whole = (HEAD..=LONGEST).contains(&length) && payload(length, run, index) == message.payload;
        let (receiver, stream) = (message.receiver.to_bits(), message.stream.0);
        let (first, last) = (message.first_sqn.0, message.sqn.0);
        self.say(&format!(
            "message {receiver} {stream} {first} {last} {run} {index} {length} {}",
            u8::from(is_whole)
        ));
    }

    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        self.say(&format!("loss {} {} {} {}", receiver.to_bits(), stream.0, loss.first.0, loss.count));
    }

    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        let reason = match end.reason {
            EndReason::Ended => "ended",
            EndReason::TimedOut => "timed_out",
            EndReason::Closed => "closed",
            EndReason::Broken => "broken",
            EndReason::Reset => "reset",
            EndReason::Restarted => "restarted",
        };
        let next = end.next.map_or("-".to_owned(), |next| next.0.to_string());
        let tail = u8::from(end.tail_unknown);
        self.say(&format!("end {} {} {reason} {next} {tail}", receiver.to_bits(), stream.0));
    }
}

/// Who drives a context.
enum Opened {
    /// This thread.
    Own(Box<Context>),
    /// A thread of the library, where its events are handled, or which puts them into a queue.
    Thread(EmbeddedContext, Option<EventQueue>),
}

enum Sender {
    Own(Source),
    /// To the library's thread.
    Thread(EmbeddedSource),
}

/// A source, and what is to be sent and was.
struct Run {
    number: u32,
    source: Sender,
    next: u32,
    wanted: u32,
    is_tried: bool,
}

/// Where a node is told what to do, and writes what it did.
struct Node {
    directory: PathBuf,
    settings: Vec<String>,
    until: Instant,
    commands: File,
    told: String,
    log: Log,
    context: Option<Opened>,
    runs: Vec<Run>,
    children: Vec<Child>,
}

fn files(directory: &std::path::Path, name: &str) -> std::io::Result<(File, Log)> {
    let file = |kind: &str| directory.join(format!("{name}.{kind}"));
    let commands = OpenOptions::new().read(true).append(true).create(true).open(file("cmd"))?;
    let mut log = Log(OpenOptions::new().append(true).create(true).open(file("log"))?);
    log.say(&format!("start {}", std::process::id()));
    Ok((commands, log))
}

impl Node {
    fn live(&mut self) -> Done {
        loop {
            while let Some(line) = self.next_command()? {
                if !self.obey(&line)? {
                    return Ok(());
                }
            }
            self.children.retain_mut(|child| child.poll().is_none());
            if Instant::now() > self.until {
                exit(78);
            }
            let Some(opened) = &mut self.context else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            for run in &mut self.runs {
                send_some(opened.own(), run, AT_ONCE, &mut self.log)?;
            }
            opened.turn(&mut self.log)?;
        }
    }

    fn next_command(&mut self) -> std::io::Result<Option<String>> {
        self.commands.read_to_string(&mut self.told)?;
        let Some((line, rest)) = self.told.split_once('\n') else { return Ok(None) };
        let (line, rest) = (line.to_owned(), rest.to_owned());
        self.told = rest;
        Ok(Some(line))
    }

    /// Does what it is told; whether it goes on.
    fn obey(&mut self, line: &str) -> Result<bool, Box<dyn Error>> {
        let words: Vec<&str> = line.split(' ').collect();
        let Node { context, log, runs, .. } = self;
        let opened = context.as_mut().ok_or("no context");
        let place = |runs: &[Run], number: &str| {
            runs.iter().position(|run| number.parse() == Ok(run.number)).ok_or("no such run")
        };
        match words[..] {
            ["open", way] => {
                *context = Some(Opened::open(way, &MessagingConfig::load(None, &self.settings)?, log)?);
                log.say("opened");
            }
            ["source", number, topic, transport] => {
                let transport = Transport::ALL.iter().find(|t| t.name() == transport).copied();
                let options = SourceOptions { transport, ..SourceOptions::default() };
                let source = opened?.create_source(topic, &options)?;
                runs.push(Run { number: number.parse()?, source, next: 0, wanted: 0, is_tried: false });
                log.say(line);
            }
            ["send", number, count] => {
                let at = place(runs, number)?;
                runs[at].wanted += count.parse::<u32>()?;
                send_some(opened?.own(), &mut runs[at], AT_ONCE, log)?;
            }
            ["delete", number] => {
                let run = runs.swap_remove(place(runs, number)?);
                log.say(&format!("deleting {number}"));
                opened?.delete_source(run.source);
                log.say(&format!("deleted {number}"));
            }
            ["receive", topic] => {
                let receiver = opened?.create_receiver(topic)?;
                log.say(&format!("receiving {} {topic}", receiver.to_bits()));
            }
            ["fork", name] => {
                let name = name.to_owned();
                let child = fork(|| {
                    self.is_child(&name)
                        .and_then(|()| self.live())
                        .inspect_err(|error| self.fails(&**error))
                        .is_ok()
                })?;
                self.children.push(child);
            }
            ["close", linger_ns] => {
                log.say("closing");
                let linger = Duration::from_nanos(linger_ns.parse()?);
                let left = context.take().ok_or("no context")?.close(linger, runs, log)?;
                log.say(&format!("closed {} {}", left.messages(), left.bytes()));
                return Ok(false);
            }
            ["exit"] => return Ok(false),
            _ => return Err(format!("not understood: {line}").into()),
        }
        Ok(true)
    }

    /// A child begins: what its parent has made does nothing here, and is gone when that is found.
    fn is_child(&mut self, name: &str) -> Done {
        (self.commands, self.log) = files(&self.directory, name)?;
        self.told.clear();
        self.children.clear();
        let (opened, mut runs) = (self.context.take(), std::mem::take(&mut self.runs));
        let Some(mut opened) = opened else { return Ok(()) };
        if !opened.is_refused(&mut runs, &mut self.log) {
            return Err("a child's call was not refused".into());
        }
        self.log.say("inert");
        Ok(())
    }

    fn fails(&mut self, error: &dyn Error) {
        self.log.say(&format!("error {error}"));
    }
}

/// What a try to send has come to.
enum Tried {
    Sent(Sqn),
    /// The library's thread has it, and will give it its number.
    Taken,
    /// There is no room, or the context is being closed.
    NotNow,
}

impl Opened {
    fn open(way: &str, config: &MessagingConfig, log: &Log) -> Result<Opened, Box<dyn Error>> {
        let counters = ContextCounters::default();
        Ok(match way {
            "own" => Opened::Own(Box::new(Context::standalone(config)?)),
            "thread" => {
                Opened::Thread(EmbeddedContext::start(config, counters, Log(log.0.try_clone()?))?, None)
            }
            "queue" => {
                let (context, queue) = EmbeddedContext::start_queued(config, counters)?;
                Opened::Thread(context, Some(queue))
            }
            _ => return Err(format!("no way to open a context: {way}").into()),
        })
    }

    fn create_source(&mut self, topic: &str, options: &SourceOptions) -> Result<Sender, Box<dyn Error>> {
        Ok(match self {
            Opened::Own(context) => Sender::Own(context.create_source(topic, options)?),
            Opened::Thread(context, _) => Sender::Thread(context.create_source(topic, options)?),
        })
    }

    fn create_receiver(&mut self, topic: &str) -> Result<Receiver, Box<dyn Error>> {
        let options = ReceiverOptions::default();
        match self {
            Opened::Own(context) => Ok(context.create_receiver(topic, &options)?),
            Opened::Thread(context, _) => {
                let topic = topic.to_owned();
                Ok(context.call(move |context| context.create_receiver(&topic, &options))??)
            }
        }
    }

    fn delete_source(&mut self, source: Sender) {
        match (self, source) {
            (Opened::Own(context), Sender::Own(source)) => context.delete_source(source),
            (_, source) => drop(source),
        }
    }

    fn turn(&mut self, log: &mut Log) -> Done {
        match self {
            Opened::Own(context) => drop(context.wait(Some(Duration::from_millis(2)), log)?),
            Opened::Thread(_, queue) => {
                let dispatched = queue.as_mut().map_or(0, |queue| queue.dispatch(EVENTS, log));
                if dispatched == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(())
    }

    /// The context that this thread drives, if it does.
    fn own(&mut self) -> Option<&mut Context> {
        match self {
            Opened::Own(context) => Some(context),
            Opened::Thread(..) => None,
        }
    }

    /// Closes it; what has not left. Another thread does that to one with a thread of its own, while this one goes on
    /// sending until it is refused, and takes events until there are no more.
    fn close(self, linger: Duration, runs: &mut [Run], log: &mut Log) -> Result<Left, Box<dyn Error>> {
        let (context, mut queue) = match self {
            Opened::Own(mut context) => return Ok(context.close(linger)),
            Opened::Thread(context, queue) => (context, queue),
        };
        let closer = std::thread::spawn(move || context.close(linger));
        runs.iter_mut().for_each(|run| run.wanted += WHILE_CLOSING);
        let is_over = |queue: &Option<EventQueue>| queue.as_ref().is_none_or(EventQueue::is_over);
        while !closer.is_finished() || !is_over(&queue) {
            for run in runs.iter_mut() {
                send_some(None, run, 1, log)?;
            }
            if queue.as_mut().map_or(0, |queue| queue.dispatch(EVENTS, log)) == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        Ok(closer.join().map_err(|_| "the closing thread has panicked")??)
    }

    /// Whether everything is refused in a child.
    fn is_refused(&mut self, runs: &mut [Run], log: &mut Log) -> bool {
        match self {
            Opened::Own(context) => {
                let is_forked = |run: &Run| match &run.source {
                    Sender::Own(source) => context.send(*source, &[b""]) == Err(SendError::Forked),
                    Sender::Thread(_) => false,
                };
                runs.iter().all(is_forked)
                    && context.poll(log).is_err_and(|error| Forked::is(&error))
                    && context.create_source("px", &SourceOptions::default()).is_err()
            }
            Opened::Thread(context, queue) => {
                let is_forked = |run: &mut Run| match &mut run.source {
                    Sender::Thread(source) => source.send(&[b""]) == Err(QueueError::Forked),
                    Sender::Own(_) => false,
                };
                runs.iter_mut().all(is_forked)
                    && context.call(|_| ()) == Err(CallError::Stopped)
                    && context.create_source("px", &SourceOptions::default()).is_err()
                    && context.drain(Duration::MAX).is_err()
                    && queue.as_mut().is_none_or(|queue| queue.dispatch(1, log) == 0 && queue.is_over())
            }
        }
    }
}

/// Sends a message by a source of `own`, or of a context with a thread of its own.
fn try_to_send(
    own: Option<&mut Context>,
    source: &mut Sender,
    bytes: &[u8],
) -> Result<Tried, Box<dyn Error>> {
    match (own, source) {
        (Some(context), Sender::Own(source)) => match context.send(*source, &[bytes]) {
            Ok(sqn) => Ok(Tried::Sent(sqn)),
            Err(SendError::WouldBlock) => Ok(Tried::NotNow),
            Err(error) => Err(error.into()),
        },
        (_, Sender::Thread(source)) => match source.send(&[bytes]) {
            Ok(()) => Ok(Tried::Taken),
            Err(QueueError::WouldBlock | QueueError::Stopped) => Ok(Tried::NotNow),
            Err(error) => Err(error.into()),
        },
        (None, Sender::Own(_)) => Err("a source of another context".into()),
    }
}

/// Sends as much of a run as there is room for, `most` messages at most.
fn send_some(mut own: Option<&mut Context>, run: &mut Run, most: usize, log: &mut Log) -> Done {
    for _ in 0..most.min((run.wanted - run.next) as usize) {
        let (number, index) = (run.number, run.next);
        let bytes = payload(length_of(number, index), number, index);
        // Said before it is done: of each source at most one message is known to be sent or not.
        if !std::mem::replace(&mut run.is_tried, true) {
            log.say(&format!("try {number} {index} {}", bytes.len()));
        }
        match try_to_send(own.as_deref_mut(), &mut run.source, &bytes)? {
            Tried::Sent(sqn) => log.say(&format!("sent {number} {index} {}", sqn.0)),
            Tried::Taken => log.say(&format!("sent {number} {index} -")),
            Tried::NotNow => return Ok(()),
        }
        run.is_tried = false;
        run.next += 1;
    }
    if let Sender::Thread(source) = &mut run.source {
        source.flush();
    }
    Ok(())
}

fn main() -> Done {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, name, lifetime_s, settings @ ..] = &words[..] else {
        return Err("node DIRECTORY NAME LIFETIME_S [KEY=VALUE]...".into());
    };
    let directory = PathBuf::from(directory);
    let (commands, log) = files(&directory, name)?;
    let mut node = Node {
        directory,
        settings: settings.to_vec(),
        until: Instant::now() + Duration::from_secs(lifetime_s.parse()?),
        commands,
        told: String::new(),
        log,
        context: None,
        runs: Vec::new(),
        children: Vec::new(),
    };
    node.live().inspect_err(|error| node.fails(&**error))
}
