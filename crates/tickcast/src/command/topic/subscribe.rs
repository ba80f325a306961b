//! `tickcast sub`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use messaging::{
    Asked, Context, End, FailoverLoss, Handler, Loss, Message, Order, Receiver, ReceiverOptions, SourceInfo,
    StreamId,
};
use net::clock;
use serde_json::{Value, json};
use units::Nanos;

use super::statistics::{Figures, Statistics};
use super::{TURN, hex, printable, seconds, warn_of_counters};
use crate::config::ConfigArgs;
use crate::failure::Failure;
use crate::host::Stop;

/// What to subscribe to and what to show.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast sub greeting                          each message: topic, number, text
  tickcast sub --wildcard 'px.*'                 all topics that begin with px.
  tickcast sub --pattern '^px\\.[A-M]|fx'         all topics in whose names the pattern is found
  tickcast sub --json --count 10 px.eq           ten messages as lines of JSON, then the end
  tickcast sub --quiet load                      a line of statistics each second; with test messages of
                                                 `tickcast pub` of the same host, latencies too
  tickcast sub --respond 'ask later' clock       answers requests
  tickcast sub --hot-failover px.eq              the first copy of what several publishers send
  tickcast sub --until-end --quiet load          ends when all sources that were found have ended

Messages and statistics go to standard output; what is found, begins, is lost and ends goes to standard error
(with --json it is a line of standard output like the rest).

Exit status: 0 all well; 1 messages were lost, or fewer than --count came; 2 wrong usage or configuration.")]
pub(crate) struct SubscribeArgs {
    /// The topic; with --wildcard the beginning of topics and a `*`; with --pattern a pattern.
    topic: String,
    /// Receives all topics that TOPIC fits: PREFIX*.
    #[arg(long)]
    wildcard: bool,
    /// Receives all topics in whose names TOPIC is found: a regular expression in the syntax of Perl, without
    /// look around and references back.
    #[arg(long, conflicts_with = "wildcard")]
    pattern: bool,
    /// Delivers in the order of arrival, not of sending.
    #[arg(long)]
    arrival: bool,
    /// Several publishers send the same messages under the same numbers: shows the first copy of each.
    #[arg(long, conflicts_with = "arrival")]
    hot_failover: bool,
    /// Shows payloads in hexadecimal.
    #[arg(long)]
    hex: bool,
    /// One JSON object a line for each event.
    #[arg(long)]
    json: bool,
    /// No messages; statistics each second and at the end.
    #[arg(long, short)]
    quiet: bool,
    /// Ends after so many messages.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Ends after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Answers each request with this text.
    #[arg(long, value_name = "TEXT")]
    respond: Option<String>,
    /// Ends when a source was found and all that were found have ended.
    #[arg(long)]
    until_end: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// How long answers may take to go out before the end.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

pub(crate) fn run(args: &SubscribeArgs) -> Result<(), Failure> {
    let config = args.config.load()?.value;
    let stop = Stop::default();
    stop.end_on_signals()?;
    let mut context = Context::standalone(&config.messaging).map_err(|e| Failure::Run(e.to_string()))?;
    warn_of_counters(&context);
    subscribe(args, &mut context)?;
    let mut view = View::new(args);
    let result = watch(args, &stop, &mut context, &mut view);
    if args.respond.is_some() {
        let until = clock::monotonic().after(LAST_ANSWERS);
        while clock::monotonic() < until {
            context.wait(Some(TURN), &mut ())?;
        }
    }
    context.end();
    match result {
        // Whoever read the output has seen enough.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(failure) => Err(failure),
        Ok(()) => verdict(args, &view.statistics),
    }
}

fn subscribe(args: &SubscribeArgs, context: &mut Context) -> Result<(), Failure> {
    let order = args.arrival.then_some(Order::Arrival);
    let options = ReceiverOptions { order, hot_failover: args.hot_failover };
    let result = if args.wildcard {
        let prefix = args.topic.strip_suffix('*').unwrap_or(&args.topic);
        if prefix.contains('*') {
            return Err(Failure::Config("--wildcard: a `*` stands at the end of the topic alone".to_owned()));
        }
        context.create_prefix_receiver(prefix, &options)
    } else if args.pattern {
        context.create_pattern_receiver(&args.topic, &options)
    } else {
        context.create_receiver(&args.topic, &options)
    };
    result.map(drop).map_err(|e| Failure::Config(format!("`{}`: {e}", args.topic)))
}

fn watch(
    args: &SubscribeArgs,
    stop: &Stop,
    context: &mut Context,
    view: &mut View<'_>,
) -> Result<(), Failure> {
    let end = args.seconds.map_or(Nanos::NEVER, |limit| clock::monotonic().after(limit));
    loop {
        let now = clock::monotonic();
        if stop.is_set() || now >= end || view.is_done() {
            break;
        }
        let worked = context.wait(Some(end.since(now).min(TURN)), view)?;
        for asked in view.asked.drain(..) {
            context.respond(asked, args.respond.as_deref().unwrap_or_default().as_bytes())?;
        }
        let figures = view.statistics.take_second(clock::monotonic());
        if let Some(figures) = figures.filter(|_| args.quiet) {
            view.show_figures("statistics", &figures);
        }
        if !worked {
            view.flush();
        }
        if let Some(error) = view.failed.take() {
            return Err(Failure::Output(error));
        }
    }
    let total = view.statistics.take_total(clock::monotonic());
    if args.quiet {
        view.show_figures("total", &total);
    } else {
        say!("{total}");
    }
    view.flush();
    view.failed.take().map_or(Ok(()), |error| Err(Failure::Output(error)))
}

fn verdict(args: &SubscribeArgs, statistics: &Statistics) -> Result<(), Failure> {
    let (messages, lost) = (statistics.messages(), statistics.lost());
    if lost > 0 {
        return Err(Failure::Run(format!("{lost} messages were lost")));
    }
    match args.count {
        Some(count) if messages < count => {
            Err(Failure::Run(format!("{messages} messages came, {count} were wanted")))
        }
        _ => Ok(()),
    }
}

/// Shows events as they come.
struct View<'a> {
    args: &'a SubscribeArgs,
    statistics: Statistics,
    topics: HashMap<StreamId, String>,
    ended: usize,
    /// Requests that are to be answered.
    asked: Vec<Asked>,
    out: BufWriter<io::StdoutLock<'static>>,
    /// The first error of the output.
    failed: Option<io::Error>,
    line: String,
}

impl<'a> View<'a> {
    fn new(args: &'a SubscribeArgs) -> View<'a> {
        View {
            args,
            statistics: Statistics::new(clock::monotonic()),
            topics: HashMap::new(),
            ended: 0,
            asked: Vec::new(),
            out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            failed: None,
            line: String::new(),
        }
    }

    fn is_done(&self) -> bool {
        let is_over = self.topics.is_empty() && self.ended > 0;
        self.has_enough() || (self.args.until_end && is_over)
    }

    fn has_enough(&self) -> bool {
        self.args.count.is_some_and(|count| self.statistics.messages() >= count)
    }

    fn topic(&self, stream: StreamId) -> &str {
        self.topics.get(&stream).map_or("", String::as_str)
    }

    fn write_line(&mut self) {
        self.line.push('\n');
        let result = self.out.write_all(self.line.as_bytes());
        self.failed = self.failed.take().or(result.err());
        self.line.clear();
    }

    fn flush(&mut self) {
        let result = self.out.flush();
        self.failed = self.failed.take().or(result.err());
    }

    /// What happened to a source: a line of JSON, or a sentence for people.
    fn print(&mut self, json: &Value, sentence: &str) {
        if self.args.json {
            self.line = json.to_string();
            self.write_line();
        } else {
            say!("{sentence}");
        }
    }

    fn show_figures(&mut self, event: &str, figures: &Figures) {
        self.line = if self.args.json { figures.json(event).to_string() } else { figures.to_string() };
        self.write_line();
        self.flush();
    }

    fn show(&mut self, message: &Message<'_>, took: Option<Duration>) {
        let mut line = std::mem::take(&mut self.line);
        if self.args.json {
            let mut object = json!({
                "ev": "message", "topic": self.topic(message.stream), "stream": message.stream.0,
                "sqn": message.sqn.0, "length": message.payload.len(), "recovered": message.recovered,
                "request": message.request().is_some(),
            });
            let (name, payload) = match std::str::from_utf8(message.payload) {
                Ok(text) if !self.args.hex => ("text", text.to_owned()),
                _ => ("hex", hex(message.payload)),
            };
            object[name] = payload.into();
            if let Some(number) = message.failover_number() {
                object["number"] = number.into();
            }
            if let Some(took) = took {
                object["latency_ns"] = json!(took.as_nanos() as u64);
            }
            line = object.to_string();
        } else {
            let (topic, sqn) = (self.topic(message.stream), message.sqn);
            let payload = if self.args.hex { hex(message.payload) } else { printable(message.payload) };
            // Writing to a string cannot fail.
            let _ = write!(line, "{topic} {sqn} {payload}");
        }
        self.line = line;
        self.write_line();
    }
}

impl Handler for View<'_> {
    fn on_message(&mut self, message: &Message<'_>) {
        if self.has_enough() {
            return;
        }
        let took = self.statistics.on_message(message);
        if self.args.respond.is_some() {
            self.asked.extend(message.request());
        }
        if !self.args.quiet {
            self.show(message, took);
        }
    }

    fn on_source(&mut self, _: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.topics.insert(stream, info.topic.to_owned());
        let (topic, source) = (info.topic, info.transport.to_string());
        let json = json!({ "ev": "source", "topic": topic, "stream": stream.0, "source": source });
        self.print(&json, &format!("found `{topic}` on {source}"));
    }

    fn on_begin(&mut self, _: Receiver, stream: StreamId, first: units::Sqn) {
        let topic = self.topic(stream).to_owned();
        let json = json!({ "ev": "begin", "topic": topic, "stream": stream.0, "sqn": first.0 });
        self.print(&json, &format!("`{topic}` begins with {first}"));
    }

    fn on_loss(&mut self, _: Receiver, stream: StreamId, loss: Loss) {
        self.statistics.on_loss(loss.count.into());
        let topic = self.topic(stream).to_owned();
        let Loss { first, count, is_burst } = loss;
        let (stream, sqn) = (stream.0, first.0);
        let json = json!({
            "ev": "loss", "topic": topic, "stream": stream, "sqn": sqn, "count": count, "burst": is_burst,
        });
        self.print(&json, &format!("`{topic}`: {count} messages are lost, from {first}"));
    }

    fn on_failover_loss(&mut self, _: Receiver, topic: &str, loss: FailoverLoss) {
        let FailoverLoss { first, count } = loss;
        self.statistics.on_loss(count);
        let json = json!({ "ev": "failover_loss", "topic": topic, "number": first, "count": count });
        self.print(&json, &format!("`{topic}`: {count} messages are lost, from number {first}"));
    }

    fn on_end(&mut self, _: Receiver, stream: StreamId, end: &End) {
        let topic = self.topics.remove(&stream).unwrap_or_default();
        self.ended += 1;
        let reason = format!("{:?}", end.reason);
        let json = json!({ "ev": "end", "topic": topic, "stream": stream.0, "reason": reason });
        self.print(&json, &format!("`{topic}` has ended ({reason})"));
    }
}
