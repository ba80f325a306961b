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
use pyo3::types::PyList;

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
}

struct Inner {
    context: messaging::Context,
    spins: bool,
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

    /// One turn.
    fn turn(&self, gathered: &mut Gathered) -> Result<Option<(Option<Duration>, bool)>, std::io::Error> {
        self.home.check()?;
        let mut inner = self.lock();
        let Some(inner) = inner.as_mut() else { return Ok(None) };
        inner.context.poll(gathered)?;
        // Asking is for who is going to sleep.
        let wakeup = if inner.spins { None } else { inner.context.until_wakeup() };
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
        settings: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyResult<Context> {
        let contents = match &config {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|e| {
                error::ConfigError::new_err(format!("cannot read the configuration {}: {e}", path.display()))
            })?),
        };
        let mut assignments = Vec::new();
        for (key, value) in settings.into_iter().flatten() {
            let value = if value.is_instance_of::<pyo3::types::PyBool>() {
                value.is_truthy()?.to_string()
            } else if let Ok(list) = value.cast::<PyList>() {
                let items: PyResult<Vec<String>> =
                    list.iter().map(|item| Ok(item.str()?.to_string())).collect();
                items?.join(",")
            } else {
                value.str()?.to_string()
            };
            assignments.push(format!("{key}={value}"));
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
        Ok(Context {
            home: Home::here(),
            inner: Mutex::new(Some(Inner { context, spins })),
            topics: Mutex::default(),
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
        let timeout = timeout.map(|t| Duration::try_from_secs_f64(t.max(0.0)).unwrap_or(Duration::MAX));
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut poller = Poller::new().map_err(|e| error::of_io(&e))?;
        let registrar = poller.registrar().clone();
        let add =
            |context: &mut messaging::Context| registrar.add(context.descriptor(), Token(0), Interest::Read);
        self.with(py, add)?.map_err(|e| error::of_io(&e))?;
        loop {
            match py.detach(|| self.wait_until(until, &mut poller))? {
                Waited::Events(gathered) => return self.objects(py, gathered),
                Waited::Nothing => return Ok(PyList::empty(py)),
                Waited::Signals => py.check_signals()?,
            }
        }
    }

    fn respond(&self, message: &Bound<'_, Message>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let asked =
            message.get().asked().ok_or_else(|| error::ConfigError::new_err("the message is no request"))?;
        with_bytes(data, |payload| {
            self.with(data.py(), |context| context.respond(asked, payload))?.map_err(|e| error::of_io(&e))
        })
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
        self.with(py, |context| context.until_wakeup().map(|due| due.as_secs_f64()))
    }

    fn close(&self, py: Python<'_>) {
        if !self.home.is_certain() {
            return;
        }
        py.detach(|| {
            if let Some(mut inner) = self.lock().take() {
                inner.context.end();
            }
        });
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> bool {
        !self.home.is_here() || py.detach(|| self.lock().is_none())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.home.is_here() {
            return;
        }
        // In a child made by `fork`, what a thread of its parent had at that moment is half changed for ever.
        let is_in_use = matches!(self.inner.try_lock(), Err(TryLockError::WouldBlock));
        if is_in_use {
            std::mem::forget(std::mem::replace(&mut self.inner, Mutex::new(None)));
        }
    }
}

/// Makes something of a context, unless that is closed.
fn create<R: Send>(
    context: &Bound<'_, Context>,
    make: impl FnOnce(&mut messaging::Context) -> Result<R, ContextError> + Send,
) -> PyResult<R> {
    context.get().with(context.py(), make)?.map_err(|e| error::of_context(&e))
}

fn receiver_options(arrival_order: bool, hot_failover: bool) -> ReceiverOptions {
    ReceiverOptions { order: arrival_order.then_some(Order::Arrival), hot_failover }
}

fn transport_of(name: &str) -> PyResult<Transport> {
    let names = || Transport::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
    let found = Transport::ALL.iter().copied().find(|t| t.name() == name);
    found.ok_or_else(|| error::ConfigError::new_err(format!("transport `{name}` is none of {}", names())))
}
