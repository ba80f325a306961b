//! Sources and receivers as Python has them.

use std::time::{Duration, Instant};

use messaging::{SendError, SendFlags, Sqn};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};

use crate::context::{Context, until};
use crate::error;
use crate::gather::Gathered;

/// Gives `work` the bytes of `bytes`, or of whatever shows its bytes (which are copied).
pub(crate) fn with_bytes<R>(data: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return work(bytes.as_bytes());
    }
    let copy = PyMemoryView::from(data)?.call_method0("tobytes")?;
    work(copy.cast::<PyBytes>()?.as_bytes())
}

/// A topic that is published.
#[pyclass(frozen, module = "tickcast")]
pub(crate) struct Source {
    pub(crate) context: Py<Context>,
    pub(crate) bits: u64,
    pub(crate) topic: String,
}

#[pymethods]
impl Source {
    #[getter]
    fn id(&self) -> u64 {
        self.bits
    }
    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }
    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<String> {
        let source = messaging::Source::from_bits(self.bits);
        self.context.get().with(py, |context| {
            context.source_transport(source).map_or_else(String::new, |transport| transport.to_string())
        })
    }
    #[pyo3(signature = (data, *, flush = false, batch = None, timeout = None))]
    fn send(
        &self,
        data: &Bound<'_, PyAny>,
        flush: bool,
        batch: Option<&str>,
        timeout: Option<f64>,
    ) -> PyResult<u32> {
        let (source, flags) = (messaging::Source::from_bits(self.bits), flags(flush, batch)?);
        if timeout.is_some_and(|timeout| timeout > 0.0) {
            return self.send_wait(data, flags, until(timeout));
        }
        self.send_by(data, |context, payload| context.send_flagged(source, flags, &[payload]))
    }
    #[pyo3(signature = (number, data, *, flush = false, batch = None))]
    fn send_hot_failover(
        &self,
        number: u64,
        data: &Bound<'_, PyAny>,
        flush: bool,
        batch: Option<&str>,
    ) -> PyResult<u32> {
        let (source, flags) = (messaging::Source::from_bits(self.bits), flags(flush, batch)?);
        self.send_by(data, |context, payload| context.send_hot_failover(source, number, flags, &[payload]))
    }
    #[pyo3(signature = (count = 1, timeout = None))]
    fn wait_for_receivers(&self, py: Python<'_>, count: usize, timeout: Option<f64>) -> PyResult<usize> {
        let (source, until) = (messaging::Source::from_bits(self.bits), until(timeout));
        let is_watched = self.receivers(py)?.is_some();
        self.watch_receivers(py, true)?;
        let mut found = 0;
        let driven = self.context.get().drive(py, until, |inner, turn| {
            let turn = if inner.early.is_full() { Duration::ZERO } else { turn };
            found = inner.context.wait_for_receivers(source, count, turn, &mut inner.early)?;
            Ok((found >= count || inner.early.is_full()).then_some(()))
        });
        if !is_watched {
            self.watch_receivers(py, false)?;
        }
        driven.map(|_| found)
    }
    #[pyo3(signature = (watches = true))]
    fn watch_receivers(&self, py: Python<'_>, watches: bool) -> PyResult<()> {
        let source = messaging::Source::from_bits(self.bits);
        let watch = |context: &mut messaging::Context| context.watch_receivers(source, watches);
        self.context.get().with(py, watch)?.map_err(|e| error::of_io(&e))
    }
    #[getter]
    fn receivers(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let source = messaging::Source::from_bits(self.bits);
        self.context.get().with(py, |context| context.receivers(source))
    }
    fn request(&self, data: &Bound<'_, PyAny>) -> PyResult<u32> {
        let source = messaging::Source::from_bits(self.bits);
        with_bytes(data, |payload| {
            let request = |context: &mut messaging::Context| context.request(source, &[payload]);
            let sent = self.context.get().with(data.py(), request)?;
            sent.map(|request| request.0).map_err(|e| error::of_request(&e))
        })
    }
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let source = messaging::Source::from_bits(self.bits);
        self.context.get().with(py, |context| context.flush_source(source))
    }
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let source = messaging::Source::from_bits(self.bits);
        self.context.get().with_if_open(py, |context| context.delete_source(source))
    }
    fn __repr__(&self) -> String {
        format!("Source({:?})", self.topic)
    }
}

impl Source {
    /// Sends, and drives the context as long as there is no room.
    fn send_wait(&self, data: &Bound<'_, PyAny>, flags: SendFlags, until: Option<Instant>) -> PyResult<u32> {
        let source = messaging::Source::from_bits(self.bits);
        with_bytes(data, |payload| {
            let sent = self.context.get().drive(data.py(), until, |inner, turn| {
                let turn = if inner.early.is_full() { Duration::ZERO } else { turn };
                let sent = inner.context.send_wait(source, flags, &[payload], turn, &mut inner.early)?;
                let waits = sent == Err(SendError::WouldBlock) && !inner.early.is_full();
                Ok((!waits).then_some(sent))
            })?;
            let sent = sent.unwrap_or(Err(SendError::WouldBlock));
            sent.map(|sqn| sqn.0).map_err(|e| error::of_send(&e))
        })
    }

    fn send_by(
        &self,
        data: &Bound<'_, PyAny>,
        send: impl FnOnce(&mut messaging::Context, &[u8]) -> Result<Sqn, SendError> + Send,
    ) -> PyResult<u32> {
        with_bytes(data, |payload| {
            let sent = self.context.get().with(data.py(), |context| send(context, payload))?;
            sent.map(|sqn| sqn.0).map_err(|e| error::of_send(&e))
        })
    }
}

fn flags(flush: bool, batch: Option<&str>) -> PyResult<SendFlags> {
    let (batch_start, batch_end) = match batch {
        None => (false, false),
        Some("start") => (true, false),
        Some("end") => (false, true),
        Some(_) => return Err(error::ConfigError::new_err("batch is `start`, `end` or None")),
    };
    Ok(SendFlags { flush, batch_start, batch_end })
}

/// A topic, or a set of topics, that is received.
#[pyclass(frozen, module = "tickcast")]
pub(crate) struct Receiver {
    pub(crate) context: Py<Context>,
    pub(crate) bits: u64,
    pub(crate) topic: String,
}

#[pymethods]
impl Receiver {
    #[getter]
    fn id(&self) -> u64 {
        self.bits
    }
    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }
    fn restart_hot_failover<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (receiver, mut gathered) = (messaging::Receiver::from_bits(self.bits), Gathered::default());
        let context = self.context.get();
        context.with(py, |context| context.restart_hot_failover(receiver, &mut gathered))?;
        context.objects(py, gathered)
    }
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let receiver = messaging::Receiver::from_bits(self.bits);
        self.context.get().with_if_open(py, |context| context.delete_receiver(receiver))
    }
    fn __repr__(&self) -> String {
        format!("Receiver({:?})", self.topic)
    }
}
