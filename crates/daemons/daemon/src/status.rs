use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use counters::table::Thread;
use net::Heartbeat;
use serde_json::{Value, json};
use units::Nanos;

use crate::query::{Parameter, Query, QueryError};

/// What a daemon says of itself, for other threads to read.
#[derive(Clone)]
pub struct Status(Arc<Shared>);

struct Shared {
    known: &'static [Parameter],
    desk: Mutex<Desk>,
    heartbeat: Heartbeat,
    load: Arc<Thread>,
    /// Clients can be disconnected here.
    takes_orders: bool,
}

#[derive(Default)]
struct Desk {
    /// Whole, or its first page.
    last: Option<(Instant, Arc<Value>)>,
    questions: Vec<Question>,
    orders: Vec<WaitingOrder>,
}

/// Somebody waits for an answer.
struct Question {
    query: Query,
    asked_at: Instant,
    answer: SyncSender<Arc<Value>>,
}

/// What became of a question so far.
enum Asked {
    Answered(Arc<Value>),
    /// Without an answer to come too many wait.
    Waiting {
        answer: Option<Receiver<Arc<Value>>>,
        is_default: bool,
    },
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusError {
    /// It is not understood.
    Query(QueryError),
    /// The daemon's thread has not answered in time, or too many ask.
    Busy,
    /// The daemon has no ledger.
    NoLedger,
    /// The daemon traces no items.
    NoTrace,
    /// It traces as many items as it may.
    TooManyTraces,
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusError::Query(error) => error.fmt(f),
            StatusError::Busy => f.write_str("the daemon is busy: ask again"),
            StatusError::NoLedger => {
                f.write_str("this daemon has no ledger: source distributors and P2PSs have one")
            }
            StatusError::NoTrace => f.write_str("this daemon traces no items: ask a P2PS"),
            StatusError::TooManyTraces => f.write_str(
                "this daemon traces as many items as it may: try again when another trace has ended",
            ),
        }
    }
}

impl std::error::Error for StatusError {}

/// What an operator wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What.
    pub wish: Wish,
    /// Who wants it.
    pub by: SocketAddr,
}

/// What can be ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A client is to be disconnected.
    Disconnect {
        /// Its id, as status pages show it.
        client: u64,
        /// Where it must come from, if that is said: ids are given again.
        peer: Option<SocketAddr>,
    },
    /// No new clients are to be taken, and those there are moved on.
    Drain {
        /// Within this time; without it as configured, or as it was ordered before.
        over: Option<Duration>,
    },
    /// Clients are to be taken again.
    Undrain,
}

/// An order, and who waits for its answer.
pub struct WaitingOrder {
    order: Order,
    asked_at: Instant,
    answer: SyncSender<Result<Value, OrderError>>,
}

impl WaitingOrder {
    /// What is to be done.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// What has come of it.
    pub fn answer(self, done: Result<Value, OrderError>) {
        // Nobody may wait any more.
        let _ = self.answer.try_send(done);
    }
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderError {
    /// This daemon has no clients.
    Unsupported,
    /// There is no client of this id.
    NoClient(u64),
    /// The client of this id comes from elsewhere.
    Another {
        /// The id.
        client: u64,
        /// Where it comes from.
        peer: SocketAddr,
    },
    /// The daemon ends: it takes no clients any more.
    Ends,
    /// The daemon ends, and moves its clients on by then: a drain may not take longer.
    EndsBefore {
        /// The time that is left, milliseconds.
        left_ms: u64,
    },
    /// Its ports cannot be opened again.
    PortsTaken(String),
    /// The daemon's thread has not answered in time, or too many ask. It may still come round to it.
    Busy,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderError::Unsupported => f.write_str("this daemon has no clients: ask a P2PS"),
            OrderError::NoClient(client) => write!(f, "no client has the id {client}: it may have gone"),
            OrderError::Another { client, peer } => {
                write!(f, "the id {client} is another client's now, from {peer}: nobody was disconnected")
            }
            OrderError::Ends => f.write_str("this daemon shuts down: it takes no clients any more"),
            OrderError::EndsBefore { left_ms } => {
                write!(
                    f,
                    "this daemon shuts down and moves its clients on within {left_ms} ms: over_ms may be that at most"
                )
            }
            OrderError::PortsTaken(why) => {
                write!(f, "{why}: end what has the port, or end this daemon; it is drained still")
            }
            OrderError::Busy => f.write_str("the daemon is busy: look in its /status whether it was done"),
        }
    }
}

impl std::error::Error for OrderError {}

/// A thread of a daemon as operators see it.
#[derive(Clone)]
pub struct DaemonThread {
    /// What it is called.
    pub name: String,
    /// Whether it turns.
    pub heartbeat: Heartbeat,
    /// How much of its time it works; zeros of a thread that does not count it.
    pub load: Arc<Thread>,
}

/// A daemon as operators see it: its threads, and one description of all of them.
#[derive(Clone)]
pub struct Described {
    threads: Vec<DaemonThread>,
    ask: Arc<Ask>,
    order: Arc<TakeOrder>,
    ledger: Arc<AskLedger>,
    trace: Arc<Ask>,
}

type Ask = dyn Fn(&str) -> Result<Value, StatusError> + Send + Sync;
type TakeOrder = dyn Fn(Order) -> Result<Value, OrderError> + Send + Sync;
type AskLedger = dyn Fn() -> Result<Value, StatusError> + Send + Sync;

impl DaemonThread {
    /// One that does not count its time.
    #[must_use]
    pub fn new(name: &str, heartbeat: Heartbeat) -> DaemonThread {
        DaemonThread { name: name.to_owned(), heartbeat, load: Arc::default() }
    }
}

impl Described {
    /// A daemon of one thread.
    #[must_use]
    pub fn of(name: &str, status: Status) -> Described {
        let (threads, orders) = (vec![status.thread(name)], status.clone());
        Described::new(threads, move |query| status.ask(query), move |order| orders.order(order))
    }

    /// The same of a daemon that has a ledger, which is its answer to [`Query::ledger`].
    #[must_use]
    pub fn with_ledger(name: &str, status: Status) -> Described {
        let ledger = status.clone();
        Described::of(name, status).and_ledger(move || ledger.ask_ledger())
    }

    /// Adds what answers questions about the ledger.
    #[must_use]
    pub fn and_ledger(
        self,
        ledger: impl Fn() -> Result<Value, StatusError> + Send + Sync + 'static,
    ) -> Described {
        Described { ledger: Arc::new(ledger), ..self }
    }

    /// Puts the hops of another daemon of the process, from which this one has its updates, before those of its own ledger.
    #[must_use]
    pub fn and_ledger_of(self, before: &Described) -> Described {
        let (before, own) = (Arc::clone(&before.ledger), Arc::clone(&self.ledger));
        self.and_ledger(move || {
            let hops = |document: Value| match document {
                Value::Object(mut parts) => parts.remove("hops"),
                _ => None,
            };
            let all = [hops(before()?), hops(own()?)].into_iter().flatten();
            let all: Vec<Value> = all.filter_map(|hops| hops.as_array().cloned()).flatten().collect();
            Ok(json!({ "hops": all }))
        })
    }

    /// Adds what follows items: it gets the part of a URL behind its `?`.
    #[must_use]
    pub fn and_trace(
        self,
        trace: impl Fn(&str) -> Result<Value, StatusError> + Send + Sync + 'static,
    ) -> Described {
        Described { trace: Arc::new(trace), ..self }
    }

    /// A daemon of several threads, with what answers questions about them and takes orders.
    #[must_use]
    pub fn new(
        threads: Vec<DaemonThread>,
        ask: impl Fn(&str) -> Result<Value, StatusError> + Send + Sync + 'static,
        order: impl Fn(Order) -> Result<Value, OrderError> + Send + Sync + 'static,
    ) -> Described {
        let ledger = || Err(StatusError::NoLedger);
        let trace = |_: &str| Err(StatusError::NoTrace);
        let (ask, order, trace) = (Arc::new(ask), Arc::new(order), Arc::new(trace));
        Described { threads, ask, order, ledger: Arc::new(ledger), trace }
    }

    /// As [`Status::ask`].
    ///
    /// # Errors
    /// [`StatusError`]: the question is not understood, or not answered in time.
    pub fn ask(&self, query: &str) -> Result<Value, StatusError> {
        (self.ask)(query)
    }

    /// As [`Status::order`].
    ///
    /// # Errors
    /// [`OrderError`]: it was not carried out, or that is not known.
    pub fn order(&self, order: Order) -> Result<Value, OrderError> {
        (self.order)(order)
    }

    /// What became of each update, as of a moment after the call.
    ///
    /// # Errors
    /// [`StatusError`]: the daemon has no ledger, or does not answer in time.
    pub fn ledger(&self) -> Result<Value, StatusError> {
        (self.ledger)()
    }

    /// One item's way, update by update, since the last question: `query` is the part of a URL behind its `?`.
    ///
    /// # Errors
    /// [`StatusError`]: the daemon traces no items, or too many, or does not answer in time.
    pub fn trace(&self, query: &str) -> Result<Value, StatusError> {
        (self.trace)(query)
    }

    /// The threads.
    #[must_use]
    pub fn threads(&self) -> Vec<DaemonThread> {
        self.threads.clone()
    }
}

/// Describes a daemon on the daemon's own thread, when somebody asks.
///
/// A description of a thousand clients takes milliseconds, which are not spent unless somebody wants it.
pub struct Describer {
    status: Status,
    due: Nanos,
}

/// Where it is told what has come of an order.
type Done = Receiver<Result<Value, OrderError>>;

/// How often it is looked whether somebody asks; and how long one description serves all who do.
const INTERVAL: Duration = Duration::from_millis(250);
/// The next look while others wait with other questions.
const NEXT_INTERVAL: Duration = Duration::from_millis(50);
/// How long a reader waits for a daemon that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most questions that wait.
const QUESTIONS_MAX: usize = 32;
/// Most orders that wait.
const ORDERS_MAX: usize = 16;

impl Status {
    /// A description made now, or some moments ago: the reader waits for the daemon's thread to come round. If
    /// that does not come round for two seconds, it is the last description there is.
    #[must_use]
    pub fn read(&self) -> Value {
        self.answer(Query::default()).unwrap_or_default()
    }

    /// The same, with the connections that `query` asks for: the part of a URL behind its `?`.
    ///
    /// # Errors
    /// [`StatusError`]: the question is not understood, or not answered in time.
    pub fn ask(&self, query: &str) -> Result<Value, StatusError> {
        self.answer(Query::parse(query, self.0.known).map_err(StatusError::Query)?)
    }

    /// The daemon's ledger, as of a moment after the call.
    ///
    /// # Errors
    /// [`StatusError::Busy`]: it is not answered in time.
    pub fn ask_ledger(&self) -> Result<Value, StatusError> {
        self.answer(Query::ledger())
    }

    /// One item's way, update by update: see [`Query::trace`].
    ///
    /// # Errors
    /// [`StatusError`]: the question is not understood, or not answered in time.
    pub fn ask_trace(&self, query: &str) -> Result<Value, StatusError> {
        self.answer(Query::trace(query).map_err(StatusError::Query)?)
    }

    /// Asks several threads the same, all at once: the answers come within the time of one.
    ///
    /// # Errors
    /// [`StatusError::Busy`]: one has not answered in time.
    pub fn ask_all(all: &[Status], query: &Query) -> Result<Vec<Value>, StatusError> {
        let asked_at = Instant::now();
        let asked: Vec<Asked> = all.iter().map(|status| status.begin(query.clone(), asked_at)).collect();
        all.iter().zip(asked).map(|(status, asked)| status.finish(asked, asked_at)).collect()
    }

    fn answer(&self, query: Query) -> Result<Value, StatusError> {
        let asked_at = Instant::now();
        self.finish(self.begin(query, asked_at), asked_at)
    }

    fn begin(&self, query: Query, asked_at: Instant) -> Asked {
        let is_default = query == Query::default();
        let mut desk = self.0.lock();
        match desk.last.as_ref().filter(|(made_at, _)| is_default && *made_at + INTERVAL >= asked_at) {
            Some((_, last)) => Asked::Answered(Arc::clone(last)),
            None => Asked::Waiting { answer: desk.put(query, asked_at), is_default },
        }
    }

    fn finish(&self, asked: Asked, asked_at: Instant) -> Result<Value, StatusError> {
        let (answer, is_default) = match asked {
            Asked::Answered(value) => return Ok(Value::clone(&value)),
            Asked::Waiting { answer, is_default } => (answer, is_default),
        };
        let left = PATIENCE.saturating_sub(asked_at.elapsed());
        match answer.and_then(|answer| answer.recv_timeout(left).ok()) {
            Some(answer) => Ok(Value::clone(&answer)),
            None if is_default => {
                Ok(self.0.lock().last.as_ref().map_or(Value::Null, |(_, v)| Value::clone(v)))
            }
            None => Err(StatusError::Busy),
        }
    }

    /// Gives an order and waits until it is carried out. The answer describes what has come of it.
    ///
    /// # Errors
    /// [`OrderError`]: it was not carried out, or that is not known.
    pub fn order(&self, order: Order) -> Result<Value, OrderError> {
        let asked_at = Instant::now();
        Status::wait_done(self.put_order(order, asked_at), asked_at)
    }

    /// Gives the same order to several threads, all at once; the answers come within the time of one.
    ///
    /// # Errors
    /// [`OrderError`]: one has not carried it out, though others may have.
    pub fn order_all(all: &[Status], order: &Order) -> Result<Vec<Value>, OrderError> {
        let asked_at = Instant::now();
        let given: Vec<_> = all.iter().map(|status| status.put_order(order.clone(), asked_at)).collect();
        let done: Vec<_> = given.into_iter().map(|answer| Status::wait_done(answer, asked_at)).collect();
        done.into_iter().collect()
    }

    fn put_order(&self, order: Order, asked_at: Instant) -> Result<Done, OrderError> {
        if !self.0.takes_orders {
            return Err(OrderError::Unsupported);
        }
        let (answer, receiver) = mpsc::sync_channel(1);
        let mut desk = self.0.lock();
        if desk.orders.len() >= ORDERS_MAX {
            return Err(OrderError::Busy);
        }
        desk.orders.push(WaitingOrder { order, asked_at, answer });
        Ok(receiver)
    }

    fn wait_done(answer: Result<Done, OrderError>, asked_at: Instant) -> Result<Value, OrderError> {
        let left = PATIENCE.saturating_sub(asked_at.elapsed());
        answer?.recv_timeout(left).unwrap_or(Err(OrderError::Busy))
    }

    /// The heart of the daemon's thread: it beats four times a second or more, busy or idle.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        self.0.heartbeat.clone()
    }

    /// What the thread's loop counts of its time.
    #[must_use]
    pub fn load(&self) -> &Thread {
        &self.0.load
    }

    /// The thread, by that name.
    #[must_use]
    pub fn thread(&self, name: &str) -> DaemonThread {
        let (heartbeat, load) = (self.heartbeat(), Arc::clone(&self.0.load));
        DaemonThread { name: name.to_owned(), heartbeat, load }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    /// Puts a question behind the others, if there is room.
    fn put(&mut self, query: Query, asked_at: Instant) -> Option<Receiver<Arc<Value>>> {
        // Nobody waits for these any more.
        self.questions.retain(|question| question.asked_at + PATIENCE >= asked_at);
        if self.questions.len() >= QUESTIONS_MAX {
            return None;
        }
        let (answer, receiver) = mpsc::sync_channel(1);
        self.questions.push(Question { query, asked_at, answer });
        Some(receiver)
    }
}

impl Describer {
    /// That of a daemon that understands these parameters of questions.
    #[must_use]
    pub fn new(known: &'static [Parameter]) -> Describer {
        Describer::with_orders(known, false)
    }

    /// The same of a daemon that takes orders: [`Describer::take_orders`] has to be called.
    #[must_use]
    pub fn taking_orders(known: &'static [Parameter]) -> Describer {
        Describer::with_orders(known, true)
    }

    fn with_orders(known: &'static [Parameter], takes_orders: bool) -> Describer {
        let (desk, heartbeat, load) = (Mutex::default(), Heartbeat::default(), Arc::default());
        let shared = Shared { known, desk, heartbeat, load, takes_orders };
        Describer { status: Status(Arc::new(shared)), due: Nanos::ZERO }
    }

    /// Where the description can be read.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Orders that wait, if it is time to look whether there are any. To be called before [`Describer::describe`], so
    /// that a description shows what has come of them. An order that nobody waits for any more is dropped: who gave it
    /// was told that it is not known what became of it.
    #[inline]
    pub fn take_orders(&mut self, now: Nanos) -> Vec<WaitingOrder> {
        if now < self.due {
            return Vec::new();
        }
        let mut desk = self.status.0.lock();
        let mut waiting = std::mem::take(&mut desk.orders);
        if !waiting.is_empty() {
            // What is described from now on shows what has come of them.
            desk.last = None;
        }
        drop(desk);
        waiting.retain(|waiting| waiting.asked_at.elapsed() < PATIENCE);
        waiting
    }

    /// Describes the daemon if it is time to look whether somebody asks, and somebody does: once, for all that ask
    /// the same as the first.
    #[inline]
    pub fn describe(&mut self, now: Nanos, make: impl FnOnce(&Query) -> Value) {
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        self.status.0.heartbeat.beat(now);
        let mut desk = self.status.0.lock();
        let Some(query) = desk.questions.first().map(|question| question.query.clone()) else { return };
        drop(desk);
        let value = Arc::new(make(&query));
        desk = self.status.0.lock();
        for question in desk.questions.extract_if(.., |question| question.query == query) {
            // Nobody may wait any more.
            let _ = question.answer.try_send(Arc::clone(&value));
        }
        if !desk.questions.is_empty() {
            self.due = now + NEXT_INTERVAL;
        }
        if query == Query::default() {
            desk.last = Some((Instant::now(), value));
        }
    }

    /// When it is time.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Subject;

    fn describer() -> Describer {
        Describer::new(Parameter::ALL)
    }

    #[test]
    fn a_ledger_has_the_hops_of_the_daemon_before_first() {
        let daemon = |hops: Value| {
            let described = Described::new(Vec::new(), |_| Ok(Value::Null), |_| Err(OrderError::NoClient(0)));
            described.and_ledger(move || Ok(json!({ "hops": hops })))
        };
        let (before, own) = (daemon(json!(["a"])), daemon(json!(["b", "c"])));
        assert_eq!(own.and_ledger_of(&before).ledger().ok(), Some(json!({ "hops": ["a", "b", "c"] })));
        let none = Described::new(Vec::new(), |_| Ok(Value::Null), |_| Err(OrderError::NoClient(0)));
        let failed = daemon(json!(["b"])).and_ledger_of(&none).ledger();
        assert!(matches!(failed, Err(StatusError::NoLedger)), "an account that lacks a hop is none");
    }

    #[test]
    fn nothing_is_described_as_long_as_nobody_asks() {
        let mut describer = describer();
        for turn in 0..10 {
            let now = Nanos(turn * 1_000_000_000);
            assert!(describer.next_wakeup() <= now);
            describer.describe(now, |_| panic!("nobody asks"));
            assert_eq!(describer.next_wakeup(), now + INTERVAL);
        }
    }

    #[test]
    fn who_asks_gets_what_is_described_afterwards() {
        let mut describer = describer();
        let status = describer.status();
        let reader = std::thread::spawn(move || status.read());
        let (mut turn, mut made) = (0, 0);
        while !reader.is_finished() {
            turn += 1;
            describer.describe(Nanos(turn * 1_000_000_000), |_| {
                made += 1;
                json!(made)
            });
        }
        assert_eq!((reader.join().expect("it does not panic"), made), (json!(1), 1), "one serves");
    }

    #[test]
    fn several_threads_are_asked_at_once() {
        let mut describers: Vec<Describer> = (0..50).map(|_| describer()).collect();
        let all: Vec<Status> = describers.iter().map(Describer::status).collect();
        let reader = std::thread::spawn(move || {
            let query = Query::parse("limit=7", Parameter::ALL).expect("it is allowed");
            Status::ask_all(&all, &query)
        });
        // Each looks once whether somebody asks, after the last one was asked.
        while describers.last().is_some_and(|last| last.status.0.lock().questions.is_empty()) {
            std::thread::yield_now();
        }
        for (at, describer) in describers.iter_mut().enumerate() {
            describer.describe(Nanos(1), |_| json!(at));
        }
        let answers = reader.join().expect("it does not panic").expect("all answer");
        assert_eq!(answers, (0..50).map(|at| json!(at)).collect::<Vec<Value>>());
    }

    #[test]
    fn each_gets_the_answer_to_its_own_question_and_equal_ones_cost_one_description() {
        let mut describer = describer();
        let asked = Instant::now();
        let queries = ["limit=1", "limit=2", "limit=1", "user=a"];
        let ask = |query| {
            let query = Query::parse(query, Parameter::ALL).expect("it is allowed");
            describer.status.0.lock().put(query, asked).expect("there is room")
        };
        let answers: Vec<Receiver<Arc<Value>>> = queries.into_iter().map(ask).collect();
        let (mut now, mut made) = (Nanos(1), Vec::new());
        for _ in 0..5 {
            describer.describe(now, |query| {
                made.push(query.clone());
                json!(format!("{query:?}"))
            });
            now = describer.next_wakeup();
        }
        assert_eq!(made.len(), 3);
        // Not sooner than that, however many ask.
        assert_eq!(now, Nanos(1) + 2 * NEXT_INTERVAL + 3 * INTERVAL);
        for (query, answer) in queries.into_iter().zip(answers) {
            let query = Query::parse(query, Parameter::ALL).expect("it is allowed");
            assert_eq!(*answer.try_recv().expect("it is answered"), json!(format!("{query:?}")));
        }
    }

    #[test]
    fn questions_that_nobody_answers_do_not_pile_up() {
        let describer = describer();
        let (mut desk, asked) = (describer.status.0.lock(), Instant::now());
        let waiting: Vec<_> = (0..QUESTIONS_MAX).map(|_| desk.put(Query::default(), asked)).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(desk.put(Query::default(), asked).is_none());
        let later = asked + PATIENCE + Duration::from_nanos(1);
        assert!(desk.put(Query::default(), later).is_some());
        assert_eq!(desk.questions.len(), 1);
    }

    fn order(client: u64) -> Order {
        let by = SocketAddr::from(([127, 0, 0, 1], 4711));
        Order { wish: Wish::Disconnect { client, peer: None }, by }
    }

    #[test]
    fn an_order_is_carried_out_once_and_who_gave_it_learns_what_came_of_it() {
        let mut describer = Describer::taking_orders(Parameter::ALL);
        let status = describer.status();
        let operator = std::thread::spawn(move || (status.order(order(7)), status.order(order(8))));
        let (mut turn, mut taken) = (0, Vec::new());
        while !operator.is_finished() {
            turn += 1;
            for waiting in describer.take_orders(Nanos(turn * 1_000_000_000)) {
                let Wish::Disconnect { client, .. } = waiting.order().wish else { panic!("nothing else") };
                taken.push(client);
                waiting.answer(if client == 7 {
                    Ok(json!("gone"))
                } else {
                    Err(OrderError::NoClient(client))
                });
            }
            std::thread::yield_now();
        }
        assert_eq!(taken, [7, 8]);
        let answers = operator.join().expect("it does not panic");
        assert_eq!(answers, (Ok(json!("gone")), Err(OrderError::NoClient(8))));
    }

    #[test]
    fn an_order_for_several_threads_is_done_when_all_have_done_it_and_no_older_description_hides_it() {
        let mut describers = [(); 3].map(|()| Describer::taking_orders(Parameter::ALL));
        let all: Vec<Status> = describers.iter().map(Describer::status).collect();
        describers[0].status.0.lock().last = Some((Instant::now(), Arc::new(json!("before"))));
        let operator = std::thread::spawn(move || {
            let order = Order { wish: Wish::Undrain, by: order(0).by };
            (Status::order_all(&all, &order), Status::order_all(&all, &order))
        });
        let (mut turn, mut taken) = (0, [0; 3]);
        while !operator.is_finished() {
            turn += 1;
            for (place, describer) in describers.iter_mut().enumerate() {
                for waiting in describer.take_orders(Nanos(turn * 1_000_000_000)) {
                    taken[place] += 1;
                    let is_refused = place == 1 && taken[place] == 2;
                    let done = if is_refused { Err(OrderError::Ends) } else { Ok(json!(place)) };
                    waiting.answer(done);
                }
            }
            std::thread::yield_now();
        }
        let answers = operator.join().expect("it does not panic");
        assert_eq!(answers, (Ok(vec![json!(0), json!(1), json!(2)]), Err(OrderError::Ends)));
        assert_eq!(taken, [2; 3]);
        assert!(describers[0].status.0.lock().last.is_none());
    }

    #[test]
    fn a_daemon_without_clients_takes_no_order_and_orders_do_not_pile_up() {
        assert_eq!(describer().status().order(order(7)), Err(OrderError::Unsupported));
        let describer = Describer::taking_orders(Parameter::ALL);
        let (answer, _receiver) = mpsc::sync_channel(1);
        let waiting = (0..ORDERS_MAX as u64).map(|client| WaitingOrder {
            order: order(client),
            asked_at: Instant::now(),
            answer: answer.clone(),
        });
        describer.status.0.lock().orders.extend(waiting);
        assert_eq!(describer.status().order(order(99)), Err(OrderError::Busy));
        assert_eq!(describer.status.0.lock().orders.len(), ORDERS_MAX);
    }

    #[test]
    fn a_daemon_that_traces_nothing_says_so_and_a_trace_names_its_item() {
        let described = Described::of("feed", describer().status());
        let error = described.trace("item=A").expect_err("it traces nothing");
        assert_eq!(error.to_string(), "this daemon traces no items: ask a P2PS");
        for (query, why) in [
            ("", "`item` is missing: "),
            ("service=A", "`item` is missing: "),
            ("item=A&limit=1", "\"limit\" is no parameter here: item, service, after"),
        ] {
            let error = describer().status().ask_trace(query).expect_err("it is not understood").to_string();
            assert!(error.starts_with(why), "{error}");
        }
        let query = Query::trace("item=7:A%20B&service=S&after=9").expect("it is allowed");
        assert_eq!((query.subject(), query.item()), (Subject::Trace, Some((Some("S"), 7, "A B"))));
    }

    #[test]
    fn a_daemon_that_does_not_come_round_is_as_it_last_said() {
        let status = describer().status();
        assert_eq!(status.read(), Value::Null);
        assert_eq!(status.ask("limit=5"), Err(StatusError::Busy));
        assert!(matches!(status.ask("limit=0"), Err(StatusError::Query(_))));
    }
}
