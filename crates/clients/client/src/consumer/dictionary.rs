//! Where the data dictionary comes from.

use std::sync::Arc;
use std::time::Duration;

use market::image::FieldRules;
use rdm::dictionary::{DictionaryDownload, DictionaryKind, DictionaryMsg, ENUMS_NAME, FIELDS_NAME};
use rdm::directory::Directory;
use rdm::{RdmError, ToVec};
use rssl::Outbound;
use rwf::{Dictionary, Domain, Msg, State, StreamState};
use units::Nanos;

use super::event::DictionaryFault;
use super::streams::StreamTable;
use crate::DictionaryMode;

/// The dictionary in use and the download of the next.
///
/// On each connection it is downloaded anew, from the first service that has it; as long as that takes, one
/// that was known before stays in use.
pub(crate) struct DictionarySource {
    mode: DictionaryMode,
    timeout_ms: u32,
    current: Option<Arc<Dictionary>>,
    rules: FieldRules,
    /// The application gave it: nothing is downloaded.
    is_given: bool,
    download: DictionaryDownload,
    bytes_max: usize,
    step: Step,
    /// Services whose download has failed since all were tried last.
    failed: Vec<u16>,
    /// On this connection all services have been tried in vain, or there was none to try.
    gave_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// No service was found yet.
    Looking,
    /// Asked for.
    Asked { service_id: u16, streams: [i32; 2], deadline: Nanos },
    /// It is there.
    Done,
    /// All services were tried in vain; they are tried again later.
    Failed { again_at: Nanos },
}

/// What a step of the download came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing to tell.
    None,
    /// A dictionary is there.
    Ready,
    /// It is not.
    Unavailable(DictionaryFault),
}

impl DictionarySource {
    pub(crate) fn new(mode: DictionaryMode, timeout_ms: u32, bytes_max: usize) -> DictionarySource {
        DictionarySource {
            mode,
            timeout_ms,
            current: None,
            rules: FieldRules::default(),
            is_given: false,
            download: DictionaryDownload::new(bytes_max),
            bytes_max,
            step: Step::Looking,
            failed: Vec::new(),
            gave_up: false,
        }
    }

    /// Takes a dictionary of the application.
    pub(crate) fn give(&mut self, dictionary: Arc<Dictionary>) {
        self.is_given = true;
        self.install(dictionary);
    }

    pub(crate) fn current(&self) -> Option<&Arc<Dictionary>> {
        self.current.as_ref()
    }

    pub(crate) fn rules(&self) -> &FieldRules {
        &self.rules
    }

    /// Whether items need not wait for the dictionary (any longer).
    pub(crate) fn lets_items_go(&self) -> bool {
        match self.mode {
            DictionaryMode::None => true,
            DictionaryMode::Required => self.current.is_some(),
            DictionaryMode::Optional => self.current.is_some() || self.gave_up,
        }
    }

    /// Begins a download if one is wanted and some service that was not tried in vain has the dictionary.
    pub(crate) fn look(
        &mut self,
        now: Nanos,
        directory: &Directory,
        streams: &mut StreamTable,
        out: &mut Outbound,
    ) -> Progress {
        let has_both = |id: u16| {
            let service = directory.service(id);
            service.is_some_and(|s| s.serves_dictionary(FIELDS_NAME) && s.serves_dictionary(ENUMS_NAME))
        };
        match self.step {
            _ if self.is_given || self.mode == DictionaryMode::None => return Progress::None,
            Step::Asked { service_id, .. } if !has_both(service_id) => {
                return self.fail(now, DictionaryFault::ServiceLost { service_id }, out);
            }
            Step::Asked { .. } | Step::Done => return Progress::None,
            Step::Looking | Step::Failed { .. } => {}
        }
        let mut offering = directory.services().map(|service| service.id).filter(|id| has_both(*id));
        match offering.find(|id| !self.failed.contains(id)) {
            Some(service_id) => {
                self.ask(now, service_id, streams, out);
                Progress::None
            }
            None if self.step == Step::Looking && self.failed.is_empty() => {
                let first = !std::mem::replace(&mut self.gave_up, true);
                if first { Progress::Unavailable(DictionaryFault::NotOffered) } else { Progress::None }
            }
            None => {
                self.give_up(now);
                Progress::None
            }
        }
    }

    fn ask(&mut self, now: Nanos, service_id: u16, streams: &mut StreamTable, out: &mut Outbound) {
        let ids = [streams.reserve(), streams.reserve()];
        for (kind, stream_id) in [DictionaryKind::Fields, DictionaryKind::Enums].into_iter().zip(ids) {
            let request = self.download.request(kind, stream_id, service_id).to_vec();
            // A request that finds the backlog full is repeated after its timeout.
            let _ = out.push(&request.expect("no part of the request can be too long"));
        }
        let deadline = now.after(Duration::from_millis(self.timeout_ms.into()));
        self.step = Step::Asked { service_id, streams: ids, deadline };
    }

    /// Whether a stream is one of the download.
    pub(crate) fn owns(&self, stream_id: i32) -> bool {
        self.download.kind(stream_id).is_some()
    }

    /// A message on a stream of the download.
    pub(crate) fn on_message(
        &mut self,
        now: Nanos,
        msg: &Msg<'_>,
        out: &mut Outbound,
    ) -> Result<Progress, RdmError> {
        match DictionaryMsg::parse(msg)? {
            DictionaryMsg::Refresh(part) => match self.download.take(&part) {
                Ok(false) => self.on_state(now, part.state, out),
                Ok(true) => match self.download.dictionary() {
                    Ok(Some(dictionary)) => {
                        self.step = Step::Done;
                        self.failed.clear();
                        self.install(Arc::new(dictionary));
                        Ok(Progress::Ready)
                    }
                    Ok(None) => Ok(Progress::None),
                    Err(error) => Ok(self.fail(now, DictionaryFault::Malformed(error), out)),
                },
                Err(error) => Ok(self.fail(now, DictionaryFault::Malformed(error), out)),
            },
            DictionaryMsg::Status(status) => match status.state {
                Some(state) => self.on_state(now, state, out),
                None => Ok(Progress::None),
            },
            DictionaryMsg::Request(_) | DictionaryMsg::Close(_) => {
                Err(RdmError::WrongClass { domain: Domain::DICTIONARY, class: msg.class() })
            }
        }
    }

    fn on_state(&mut self, now: Nanos, state: State<'_>, out: &mut Outbound) -> Result<Progress, RdmError> {
        let ended = matches!(
            state.stream,
            StreamState::Closed | StreamState::ClosedRecover | StreamState::Redirected
        );
        Ok(match self.step {
            Step::Asked { service_id, .. } if ended => {
                self.fail(now, DictionaryFault::Ended { service_id, code: state.code }, out)
            }
            _ => Progress::None,
        })
    }

    /// The download under way is over, without success.
    fn fail(&mut self, now: Nanos, fault: DictionaryFault, out: &mut Outbound) -> Progress {
        if let Step::Asked { service_id, streams, .. } = self.step {
            for stream_id in streams {
                let close =
                    rwf::CloseMsg::new(Domain::DICTIONARY, stream_id, rwf::DataType::NO_DATA).to_vec();
                // Without it the server keeps a stream that nobody listens to.
                let _ = out.push(&close.expect("no part of a close can be too long"));
            }
            self.failed.push(service_id);
            self.step = Step::Looking;
        } else {
            // A new version of a dictionary that is there: what is there stays.
            self.give_up(now);
        }
        self.download = DictionaryDownload::new(self.bytes_max);
        Progress::Unavailable(fault)
    }

    fn give_up(&mut self, now: Nanos) {
        if let Step::Failed { .. } = self.step {
            return;
        }
        self.gave_up = true;
        self.step = Step::Failed { again_at: now.after(Duration::from_millis(self.timeout_ms.into())) };
    }

    /// Looks after the deadline of a download and the time to try again.
    pub(crate) fn on_wakeup(&mut self, now: Nanos, out: &mut Outbound) -> Progress {
        match self.step {
            Step::Asked { service_id, deadline, .. } if deadline <= now => {
                self.fail(now, DictionaryFault::Timeout { service_id, limit_ms: self.timeout_ms }, out)
            }
            Step::Failed { again_at } if again_at <= now => {
                self.failed.clear();
                self.step = Step::Looking;
                Progress::None
            }
            Step::Asked { .. } | Step::Failed { .. } | Step::Looking | Step::Done => Progress::None,
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        match self.step {
            Step::Asked { deadline, .. } => deadline,
            Step::Failed { again_at } => again_at,
            Step::Looking | Step::Done => Nanos::NEVER,
        }
    }

    /// The connection is lost; the next one is a new beginning.
    pub(crate) fn on_disconnected(&mut self) {
        self.step = Step::Looking;
        self.failed.clear();
        self.gave_up = false;
        self.download = DictionaryDownload::new(self.bytes_max);
    }

    fn install(&mut self, dictionary: Arc<Dictionary>) {
        self.rules = FieldRules::of(&dictionary);
        self.current = Some(dictionary);
    }
}
