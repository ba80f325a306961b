use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use messaging::{
    ContextError, Home, MessagingConfig, Order, ReceiverOptions, RequestId, SourceOptions, Transport,
};
use net::{Interest, Poller, Token};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error;
use crate::event::{self, Message, Topics};
use crate::gather::Gathered;
use crate::handle::{Receiver, Source, with_bytes};

/// How long a wait runs before it looks whether Python has a signal to handle.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// A context with its own sockets. Threads may share it: they take turns, and nobody has it while another
/// waits for messages.
#[pyclass(frozen, subclass, module = "tickcast")]
pub(crate) struct Context {
    home: Home,
    /// None once it is closed.
    inner: Mutex<Option<Inner>>,
    topics: Mutex<Topics>,
    /// What waits for the context, one for each thread that ever did so at once. Made before it is needed: a process
    /// may be out of descriptors later.
    pollers: Mutex<Vec<Poller>>,
}

pub(crate) struct Inner {
    pub(crate) context: messaging::Context,
    spins: bool,
    /// What came while a send or a drain drove the context; the next turn brings it.
    pub(crate) early: Gathered,
}

impl Inner {
    fn until_wakeup(&mut self) -> Option<Duration> {
        let due = self.context.until_wakeup();
        if self.early.events.is_empty() { due } else { Some(Duration::ZERO) }
    }
}

/// How long a send or a drain has the context at once.
const TURN: Duration = Duration::from_millis(5);

/// So many seconds; none for a negative number.
fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// When a time-out is over; never without one.
pub(crate) fn until(timeout: Option<f64>) -> Option<Instant> {
    timeout.map(span).and_then(|timeout| Instant::now().checked_add(timeout))
}

/// What has not left a context; true if there is something.
#[pyclass(frozen, module = "tickcast")]
#[derive(Default)]
pub(crate) struct Left(messaging::Left);

#[pymethods]
impl Left {
    #[getter]
    fn messages(&self) -> u64 {
        self.0.messages()
    }
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    #[getter]
    fn sessions(&self) -> Vec<(String, u64, u64, u32)> {
        let of = |s: &messaging::SessionLeft| (s.transport.to_string(), s.messages, s.bytes, s.receivers);
        self.0.sessions.iter().map(of).collect()
    }
    fn __bool__(&self) -> bool {
        !self.0.is_empty()
    }
    fn __repr__(&self) -> String {
        format!("Left({})", self.0)
    }
}

/// What a wait found.
enum Waited {
    Events(Gathered),
    /// Nothing within the time.
    Nothing,
    /// It is time to look for signals.
    Signals,
}

impl Context {
    fn lock(&self) -> MutexGuard<'_, Option<Inner>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what a child made by `fork` asks for: a thread of its parent may have had the context at that moment,
    /// and have it there for ever.
    fn check_home(&self) -> PyResult<()> {
        self.home.check().map_err(|e| error::of_io(&e))
    }

    /// Runs `work` with the native context; nothing happens in a child made by `fork`. The interpreter is let go while another thread has it.
    pub(crate) fn with_if_open<R: Default + Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut messaging::Context) -> R + Send,
    ) -> PyResult<R> {
        if !self.home.is_here() {
            return Ok(R::default());
        }
        self.with_inner(py, |inner| Ok(inner.map_or_else(R::default, |inner| work(&mut inner.context))))
    }

    /// The same, refused if it is closed.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut messaging::Context) -> R + Send,
    ) -> PyResult<R> {
        self.check_home()?;
        self.with_inner(py, |inner| inner.map(|inner| work(&mut inner.context)).ok_or(()))
            .map_err(|_| error::closed())
    }

    fn with_inner<R: Send, E: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Option<&mut Inner>) -> Result<R, E> + Send,
    ) -> Result<R, E> {
        match self.inner.try_lock() {
            Ok(mut inner) => work(inner.as_mut()),
            Err(TryLockError::Poisoned(broken)) => work(broken.into_inner().as_mut()),
            Err(TryLockError::WouldBlock) => py.detach(|| work(self.lock().as_mut())),
        }
    }

    /// Drives the context by short turns of `work` until it has a result, or it is `until`; with none then. The
    /// context is free between two turns, and so is the interpreter, which handles signals.
    pub(crate) fn drive<R: Send>(
        &self,
        py: Python<'_>,
        until: Option<Instant>,
        mut work: impl FnMut(&mut Inner, Duration) -> std::io::Result<Option<R>> + Send,
    ) -> PyResult<Option<R>> {
        self.check_home()?;
        loop {
            let look = Instant::now() + SIGNALS_EVERY;
            let driven = py.detach(|| {
                loop {
                    let now = Instant::now();
                    let patience = until.map_or(TURN, |until| until.saturating_duration_since(now).min(TURN));
                    let done = match self.lock().as_mut() {
                        None => return Err(error::closed()),
                        Some(inner) => work(inner, patience).map_err(|e| error::of_io(&e))?,
                    };
                    if done.is_some() || now >= look || until.is_some_and(|until| now >= until) {
                        return Ok(done);
                    }
                }
            })?;
            if driven.is_some() || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(driven);
            }
            py.check_signals()?;
        }
    }

    /// One turn.
    fn turn(&self, gathered: &mut Gathered) -> Result<Option<(Option<Duration>, bool)>, std::io::Error> {
        self.home.check()?;
        let mut inner = self.lock();
        let Some(inner) = inner.as_mut() else { return Ok(None) };
        *gathered = std::mem::take(&mut inner.early);
        inner.context.poll(gathered)?;
        // Asking is for who is going to sleep.
        let wakeup = if inner.spins { None } else { inner.until_wakeup() };
        Ok(Some((wakeup, inner.spins)))
    }

    /// Turns until there are events or it is `until`. The context is free while nothing can be done.
    fn wait_until(&self, until: Option<Instant>, poller: &mut Poller) -> PyResult<Waited> {
        let look = Instant::now() + SIGNALS_EVERY;
        loop {
            let mut gathered = Gathered::default();
            let turn = self.turn(&mut gathered).map_err(|e| error::of_io(&e))?;
            let Some((until_wakeup, spins)) = turn else { return Err(error::closed()) };
            if !gathered.events.is_empty() {
                return Ok(Waited::Events(gathered));
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(Waited::Nothing);
            }
            if now >= look {
                return Ok(Waited::Signals);
            }
            if !spins {
                let mut patience = look - now;
                patience = until.map_or(patience, |until| patience.min(until - now));
                patience = until_wakeup.map_or(patience, |due| patience.min(due));
                drop(poller.wait(Some(patience)).map_err(|e| error::of_io(&e))?);
            }
        }
    }

    /// Takes what waits for the context; to be given back.
    fn take_poller(&self, py: Python<'_>) -> PyResult<Poller> {
        let idle = self.pollers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(poller) => Ok(poller),
            None => self.with(py, |context| poller_of(context))?.map_err(|e| error::of_io(&e)),
        }
    }

    fn give_poller(&self, poller: Poller) {
        self.pollers.lock().unwrap_or_else(PoisonError::into_inner).push(poller);
    }

    pub(crate) fn objects<'py>(&self, py: Python<'py>, gathered: Gathered) -> PyResult<Bound<'py, PyList>> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        event::objects(py, gathered, &mut topics)
    }
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (config = None, **settings))]
    fn new(
        py: Python<'_>,
        config: Option<PathBuf>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Context> {
        let contents = match &config {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|e| {
                error::ConfigError::new_err(format!("cannot read the configuration {}: {e}", path.display()))
            })?),
        };
        let mut assignments = Vec::new();
        for (key, value) in settings.into_iter().flatten() {
            // A section may be given as a dictionary of its keys.
            if let Ok(section) = value.cast::<PyDict>() {
                for (name, value) in section {
                    assignments.push(format!("{key}.{name}={}", setting(&value)?));
                }
            } else {
                assignments.push(format!("{key}={}", setting(&value)?));
            }
        }
        let name = config.map(|path| path.display().to_string()).unwrap_or_default();
        let file = contents.as_ref().map(|contents| (name.as_str(), contents.as_slice()));
        let config = MessagingConfig::load(file, assignments)
            .map_err(|e| error::ConfigError::new_err(e.to_string()))?;
        let spins = config.wait == messaging::Wait::Spin;
        let context = messaging::Context::standalone(&config).map_err(|e| error::of_context(&e))?;
        if let Some(error) = context.counters().publish_error() {
            let text = CString::new(format!("`tickcast counters` will not find this process: {error}"))?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
        }
        let pollers =
            if spins { Vec::new() } else { vec![poller_of(&context).map_err(|e| error::of_io(&e))?] };
        Ok(Context {
            home: Home::here(),
            inner: Mutex::new(Some(Inner { context, spins, early: Gathered::default() })),
            topics: Mutex::default(),
            pollers: Mutex::new(pollers),
        })
    }

    #[pyo3(signature = (topic, *, transport = None))]
    fn source(slf: &Bound<'_, Self>, topic: String, transport: Option<&str>) -> PyResult<Source> {
        let transport = transport.map(transport_of).transpose()?;
        let options = SourceOptions { transport, ..SourceOptions::default() };
        let bits = create(slf, |context| context.create_source(&topic, &options))?.to_bits();
        Ok(Source { context: slf.clone().unbind(), bits, topic })
    }

    #[pyo3(signature = (topic, *, arrival_order = false, hot_failover = false))]
    fn receiver(
        slf: &Bound<'_, Self>,
        topic: String,
        arrival_order: bool,
        hot_failover: bool,
    ) -> PyResult<Receiver> {
        let options = receiver_options(arrival_order, hot_failover);
        let bits = create(slf, |context| context.create_receiver(&topic, &options))?.to_bits();
        Ok(Receiver { context: slf.clone().unbind(), bits, topic })
    }

    #[pyo3(signature = (prefix, *, arrival_order = false, hot_failover = false))]
    fn prefix_receiver(
        slf: &Bound<'_, Self>,
        prefix: String,
        arrival_order: bool,
        hot_failover: bool,
    ) -> PyResult<Receiver> {
        let options = receiver_options(arrival_order, hot_failover);
        let bits = create(slf, |context| context.create_prefix_receiver(&prefix, &options))?.to_bits();
        Ok(Receiver { context: slf.clone().unbind(), bits, topic: format!("{prefix}*") })
    }

    #[pyo3(signature = (pattern, *, arrival_order = false, hot_failover = false))]
    fn pattern_receiver(
        slf: &Bound<'_, Self>,
        pattern: String,
        arrival_order: bool,
        hot_failover: bool,
    ) -> PyResult<Receiver> {
        let options = receiver_options(arrival_order, hot_failover);
        let bits = create(slf, |context| context.create_pattern_receiver(&pattern, &options))?.to_bits();
        Ok(Receiver { context: slf.clone().unbind(), bits, topic: pattern })
    }

    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut gathered = Gathered::default();
        let turn = py.detach(|| self.turn(&mut gathered)).map_err(|e| error::of_io(&e))?;
        turn.ok_or_else(error::closed)?;
        self.objects(py, gathered)
    }

    #[pyo3(signature = (timeout = None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyList>> {
        let until = until(timeout);
        self.check_home()?;
        let mut poller = self.take_poller(py)?;
        let waited = loop {
            match py.detach(|| self.wait_until(until, &mut poller)) {
                Ok(Waited::Signals) => {
                    if let Err(interrupt) = py.check_signals() {
                        break Err(interrupt);
                    }
                }
                waited => break waited,
            }
        };
        self.give_poller(poller);
        match waited? {
            Waited::Events(gathered) => self.objects(py, gathered),
            Waited::Nothing | Waited::Signals => Ok(PyList::empty(py)),
        }
    }

    fn respond(&self, message: &Bound<'_, Message>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let asked =
            message.get().asked().ok_or_else(|| error::ConfigError::new_err("the message is no request"))?;
        with_bytes(data, |payload| {
            self.with(data.py(), |context| context.respond(asked, payload))?.map_err(|e| error::of_io(&e))
        })
    }

    /// For `statistics` of the package: kind, topic, transport, peer and numbers of each, from a position on, and
    /// where the next ones are if there are any.
    fn _statistics<'py>(
        &self,
        py: Python<'py>,
        at: u64,
        most: usize,
    ) -> PyResult<(Bound<'py, PyList>, Option<u64>)> {
        type Row = (&'static str, Option<String>, String, Option<String>, Vec<(&'static str, u64)>);
        let (rows, rest) = self.with(py, |context| {
            let mut rows = Vec::<Row>::new();
            let from = messaging::StatisticsPosition::from_bits(at);
            let rest = context.statistics_from(from, most.min(messaging::STATISTICS_MAX), |one| {
                let mut numbers = Vec::new();
                one.numbers(|name, value| numbers.push((name, value)));
                let (topic, transport) = (one.topic().map(str::to_owned), one.transport().to_string());
                rows.push((one.kind(), topic, transport, one.peer(), numbers));
            });
            (rows, rest.map(messaging::StatisticsPosition::to_bits))
        })?;
        Ok((PyList::new(py, rows)?, rest))
    }

    fn cancel_request(&self, py: Python<'_>, request: u32) -> PyResult<()> {
        self.with(py, |context| context.cancel_request(RequestId(request)))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, messaging::Context::flush)
    }

    fn reload_security(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |context| context.reload_security())?.map_err(|e| error::of_context(&e))
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |context| context.descriptor().as_raw_fd())
    }

    fn until_wakeup(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.check_home()?;
        let due = self.with_inner(py, |inner| {
            inner.map(|inner| inner.until_wakeup().map(|due| due.as_secs_f64())).ok_or(())
        });
        due.map_err(|()| error::closed())
    }

    #[pyo3(signature = (timeout = None))]
    fn drain(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Left> {
        self.drive(py, until(timeout), |inner, turn| {
            let left = inner.context.drain(turn, &mut inner.early)?;
            // What waits for somebody to take it grows no further.
            Ok((left.is_empty() || inner.early.is_full()).then_some(left))
        })?
        .map_or_else(|| self.with(py, |context| Left(context.left())), |left| Ok(Left(left)))
    }

    #[pyo3(signature = (linger = None))]
    fn close(&self, py: Python<'_>, linger: Option<f64>) -> Left {
        if !self.home.is_certain() {
            return Left::default();
        }
        py.detach(|| {
            // Others are refused from here on, and do not wait.
            let inner = self.lock().take();
            self.pollers.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let closed = inner.map(|mut inner| {
                let linger = linger.map_or_else(|| inner.context.config().linger(), span);
                Left(inner.context.close(linger))
            });
            closed.unwrap_or_default()
        })
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> bool {
        !self.home.is_here() || py.detach(|| self.lock().is_none())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.home.is_here() {
            let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            // It may take the linger until all has left. An interpreter that ends is not let go.
            Python::try_attach(|py| py.detach(|| drop(inner)));
            return;
        }
        // In a child made by `fork`, what a thread of its parent had at that moment is half changed for ever.
        let is_in_use = matches!(self.inner.try_lock(), Err(TryLockError::WouldBlock));
        if is_in_use {
            std::mem::forget(std::mem::replace(&mut self.inner, Mutex::new(None)));
        }
    }
}

/// What waits until a context has something to take.
fn poller_of(context: &messaging::Context) -> std::io::Result<Poller> {
    let poller = Poller::new()?;
    poller.registrar().add(context.descriptor(), Token(0), Interest::Read)?;
    Ok(poller)
}

/// Makes something of a context, unless that is closed.
fn create<R: Send>(
    context: &Bound<'_, Context>,
    make: impl FnOnce(&mut messaging::Context) -> Result<R, ContextError> + Send,
) -> PyResult<R> {
    context.get().with(context.py(), make)?.map_err(|e| error::of_context(&e))
}

/// A value as a setting is written.
fn setting(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<pyo3::types::PyBool>() {
        return Ok(value.is_truthy()?.to_string());
    }
    let Ok(list) = value.cast::<PyList>() else { return Ok(value.str()?.to_string()) };
    let items: PyResult<Vec<String>> = list.iter().map(|item| Ok(item.str()?.to_string())).collect();
    Ok(items?.join(","))
}

fn receiver_options(arrival_order: bool, hot_failover: bool) -> ReceiverOptions {
    ReceiverOptions { order: arrival_order.then_some(Order::Arrival), hot_failover }
}

fn transport_of(name: &str) -> PyResult<Transport> {
    let names = || Transport::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
    let found = Transport::ALL.iter().copied().find(|t| t.name() == name);
    found.ok_or_else(|| error::ConfigError::new_err(format!("transport `{name}` is none of {}", names())))
}
