//! Recorders as Python has them.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use observation::{Clock, Settings};
use pyo3::prelude::*;

use crate::error::{self, ConfigError, TickcastError};

/// Takes down the id and the time of each message, on one thread.
#[pyclass(frozen, module = "tickcast")]
pub(crate) struct Recorder {
    /// Only its thread records; others look and write.
    inner: Mutex<observation::Recorder>,
    owner: ThreadId,
}

fn of_io(error: &io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidInput => ConfigError::new_err(error.to_string()),
        _ => error::of_io(error),
    }
}

impl Recorder {
    fn inner(&self) -> MutexGuard<'_, observation::Recorder> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(signature = (point, capacity, *, stream = "", clock = None))]
    fn new(
        py: Python<'_>,
        point: &str,
        capacity: u64,
        stream: &str,
        clock: Option<&str>,
    ) -> PyResult<Recorder> {
        let known = |name: &str| {
            let names = Clock::ALL.map(Clock::name).join(", ");
            Clock::by_name(name)
                .ok_or_else(|| ConfigError::new_err(format!("clock {name:?}: it is one of {names}, or None")))
        };
        let clock = clock.map(known).transpose()?;
        let settings = Settings { point: point.to_owned(), stream: stream.to_owned(), capacity, clock };
        let inner = py.detach(|| observation::Recorder::new(&settings)).map_err(|e| of_io(&e))?;
        Ok(Recorder { inner: Mutex::new(inner), owner: thread::current().id() })
    }
    fn record(&self, id: u64) -> PyResult<bool> {
        if thread::current().id() != self.owner {
            let text = "a recorder belongs to the thread that made it: each thread makes its own";
            return Err(TickcastError::new_err(text));
        }
        Ok(self.inner().record(id))
    }
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.inner().write(&path, |_, _| ())).map_err(|e| of_io(&e))
    }
    #[getter]
    fn records(&self) -> u64 {
        self.inner().records()
    }
    #[getter]
    fn lost(&self) -> u64 {
        self.inner().lost()
    }
    #[getter]
    fn capacity(&self) -> u64 {
        self.inner().capacity()
    }
    #[getter]
    fn clock(&self) -> &'static str {
        self.inner().clock().name()
    }
    #[getter]
    fn cost_ns(&self) -> f64 {
        self.inner().cost_ns()
    }
    #[getter]
    fn is_locked(&self) -> bool {
        self.inner().is_locked()
    }
    /// The id of a publisher's message.
    #[staticmethod]
    fn id(publisher: u16, number: u64) -> u64 {
        observation::id(publisher, number)
    }
}
