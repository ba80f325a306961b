//! The events as Python sees them: small objects that do not change.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use messaging::Asked;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice, PyString};

use crate::gather::{Event, Gathered, Received};

/// A run of a turn's bytes.
struct Payload {
    turn: Py<PyBytes>,
    range: Range<usize>,
}

impl Payload {
    fn view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = PyMemoryView::from(self.turn.bind(py).as_any())?;
        let (start, end) = (self.range.start as isize, self.range.end as isize);
        view.get_item(PySlice::new(py, start, end, 1))
    }

    fn array<'py>(&self, py: Python<'py>, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("frombuffer", (self.view(py)?, dtype))
    }
}

/// A message of a source.
#[pyclass(frozen, module = "tickcast")]
pub(crate) struct Message {
    received: Received,
    topic: Py<PyString>,
    payload: Payload,
}

impl Message {
    pub(crate) fn asked(&self) -> Option<Asked> {
        self.received.asked
    }
}

#[pymethods]
impl Message {
    #[classattr]
    const KIND: &'static str = "message";
    #[getter]
    fn receiver_id(&self) -> u64 {
        self.received.receiver
    }
    #[getter]
    fn stream(&self) -> u32 {
        self.received.stream
    }
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.topic.clone_ref(py)
    }
    #[getter]
    fn sqn(&self) -> u32 {
        self.received.sqn
    }
    #[getter]
    fn first_sqn(&self) -> u32 {
        self.received.first_sqn
    }
    #[getter]
    fn recovered(&self) -> bool {
        self.received.recovered
    }
    #[getter]
    fn via(&self) -> &'static str {
        self.received.via
    }
    #[getter]
    fn batch(&self) -> Option<&'static str> {
        self.received.batch
    }
    #[getter]
    fn number(&self) -> Option<u64> {
        self.received.number
    }
    #[getter]
    fn is_request(&self) -> bool {
        self.received.asked.is_some()
    }
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.payload.view(py)
    }
    #[pyo3(signature = (dtype = None))]
    fn array<'py>(&self, py: Python<'py>, dtype: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let dtype = dtype.unwrap_or_else(|| PyString::new(py, "u1").into_any());
        self.payload.array(py, &dtype)
    }
    fn __len__(&self) -> usize {
        self.received.payload.len()
    }
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.payload.turn.as_bytes(py)[self.payload.range.clone()])
    }
    fn __repr__(&self, py: Python<'_>) -> String {
        let Received { sqn, payload, .. } = &self.received;
        format!("Message(topic={:?}, sqn={sqn}, {} bytes)", self.topic.bind(py).to_string(), payload.len())
    }
}

/// A source was found.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct SourceFound {
    receiver_id: u64,
    stream: u32,
    topic: Py<PyString>,
    source: String,
}

/// The first message of a stream follows, or the loss of it.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct Begin {
    receiver_id: u64,
    stream: u32,
    first: u32,
}

/// Messages that will not come.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct Loss {
    receiver_id: u64,
    stream: u32,
    first: u32,
    count: u32,
    is_burst: bool,
}

/// Numbers of a topic that no source can deliver any more.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct FailoverLoss {
    receiver_id: u64,
    topic: Py<PyString>,
    first: u64,
    count: u64,
}

/// A stream is over.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct End {
    receiver_id: u64,
    stream: u32,
    reason: &'static str,
    next: Option<u32>,
    is_tail_unknown: bool,
}

/// Something happened to a source of ours.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct SourceNotice {
    source_id: u64,
    what: &'static str,
    peer: Option<String>,
    receivers: Option<usize>,
}

/// Something happened to keys and certificates.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct SecurityNotice {
    what: &'static str,
    text: String,
}

/// An answer to a request of ours.
#[pyclass(frozen, module = "tickcast")]
pub(crate) struct Response {
    #[pyo3(get)]
    request: u32,
    payload: Payload,
}

#[pymethods]
impl Response {
    #[classattr]
    const KIND: &'static str = "response";
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.payload.view(py)
    }
    fn __len__(&self) -> usize {
        self.payload.range.len()
    }
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.payload.turn.as_bytes(py)[self.payload.range.clone()])
    }
}

/// Nobody will answer a request any more.
#[pyclass(frozen, get_all, module = "tickcast")]
pub(crate) struct RequestEnded {
    request: u32,
}

/// Which method of a handler hears an event: `on_` and this.
macro_rules! kinds {
    ($($class:ident $kind:literal)*) => {$(
        #[pymethods]
        impl $class {
            #[classattr]
            const KIND: &'static str = $kind;
        }
    )*};
}

kinds! {
    SourceFound "source"
    Begin "begin"
    Loss "loss"
    FailoverLoss "failover_loss"
    End "end"
    SourceNotice "source_notice"
    SecurityNotice "security_notice"
    RequestEnded "request_ended"
}

/// Topics of the streams that are heard, and of those that have ended lately: with hot failover a message may
/// follow the end of the stream that brought it.
#[derive(Default)]
pub(crate) struct Topics {
    by_stream: HashMap<u32, Py<PyString>>,
    ended: VecDeque<u32>,
}

/// Streams that have ended of which the topic is remembered.
const ENDED_MAX: usize = 1_024;

impl Topics {
    pub(crate) fn end(&mut self, stream: u32) {
        self.ended.push_back(stream);
        if self.ended.len() > ENDED_MAX
            && let Some(stream) = self.ended.pop_front()
        {
            self.by_stream.remove(&stream);
        }
    }
}

/// Makes a turn's events objects.
pub(crate) fn objects<'py>(
    py: Python<'py>,
    gathered: Gathered,
    topics: &mut Topics,
) -> PyResult<Bound<'py, PyList>> {
    let turn = PyBytes::new(py, &gathered.bytes).unbind();
    let list = PyList::empty(py);
    let payload = |range: &Range<usize>| Payload { turn: turn.clone_ref(py), range: range.clone() };
    for event in gathered.events {
        match event {
            Event::Message(received) => {
                let topic = match topics.by_stream.get(&received.stream) {
                    Some(topic) => topic.clone_ref(py),
                    None => PyString::new(py, "").unbind(),
                };
                let payload = payload(&received.payload);
                list.append(Py::new(py, Message { received, topic, payload })?)?;
            }
            Event::Source { receiver: receiver_id, stream, topic, source } => {
                let topic = PyString::new(py, &topic).unbind();
                topics.by_stream.insert(stream, topic.clone_ref(py));
                list.append(Py::new(py, SourceFound { receiver_id, stream, topic, source })?)?;
            }
            Event::Begin { receiver: receiver_id, stream, first } => {
                list.append(Py::new(py, Begin { receiver_id, stream, first })?)?;
            }
            Event::Loss { receiver: receiver_id, stream, first, count, is_burst } => {
                list.append(Py::new(py, Loss { receiver_id, stream, first, count, is_burst })?)?;
            }
            Event::FailoverLoss { receiver: receiver_id, topic, loss } => {
                let (topic, messaging::FailoverLoss { first, count }) = (PyString::new(py, &topic), loss);
                let loss = FailoverLoss { receiver_id, topic: topic.unbind(), first, count };
                list.append(Py::new(py, loss)?)?;
            }
            Event::End { receiver: receiver_id, stream, reason, next, is_tail_unknown } => {
                topics.end(stream);
                list.append(Py::new(py, End { receiver_id, stream, reason, next, is_tail_unknown })?)?;
            }
            Event::Notice { source: source_id, what, peer, receivers } => {
                let peer = peer.map(|peer| peer.to_string());
                list.append(Py::new(py, SourceNotice { source_id, what, peer, receivers })?)?;
            }
            Event::Security { what, text } => list.append(Py::new(py, SecurityNotice { what, text })?)?,
            Event::Response { request, payload: range } => {
                list.append(Py::new(py, Response { request, payload: payload(&range) })?)?;
            }
            Event::RequestEnd { request } => list.append(Py::new(py, RequestEnded { request })?)?,
        }
    }
    Ok(list)
}
