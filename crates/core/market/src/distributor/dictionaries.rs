//! Dictionaries of dialled providers: peers and clients get the one of this instance, so that a provider's
//! should be the same. Whether it is, is asked, told, and counted.

use rdm::dictionary::{
    DictionaryInfo, DictionaryKind, DictionaryMsg, DictionaryParts, DictionaryRequest, PartSizes, Verbosity,
    info_of, kind_of,
};
use rdm::directory::Service;
use rdm::{Reply, ToVec};
use rwf::Msg;

use super::base::ProviderId;
use super::notices::{DictionaryDifference, ProviderNotice};
use super::sink::DistributorSink;
use super::suppliers::Suppliers;

/// The streams between those of the directory and the items.
const STREAM_IDS: [(DictionaryKind, i32); 2] = [(DictionaryKind::Fields, 3), (DictionaryKind::Enums, 4)];

/// More are not told: a provider whose services go by so many has said enough.
const DIFFERENCES_MAX: usize = 16;

/// Asks for what a dictionary says about itself, at the first service that provides it.
pub(super) fn request(
    kind: DictionaryKind,
    stream_id: i32,
    services: &[&Service],
) -> Option<DictionaryRequest<'static>> {
    let provides = |s: &&&Service| {
        s.info.dictionaries_provided.iter().any(|name| kind_of(name.as_bytes()) == Some(kind))
    };
    let service = services.iter().find(provides)?;
    let whole = DictionaryRequest::new(stream_id, service.id, kind);
    Some(DictionaryRequest { verbosity: Verbosity::Info, streaming: false, ..whole })
}

/// Which of the two streams this is; the second one's for any other.
fn place_of(stream_id: i32) -> usize {
    usize::from(stream_id != STREAM_IDS[0].1)
}

/// Enumerations have two versions; that of the display templates is the one that changes with their values.
fn version(kind: DictionaryKind, info: &DictionaryInfo) -> &str {
    match kind {
        DictionaryKind::Fields => &info.field_version,
        DictionaryKind::Enums => &info.enum_dt_version,
    }
}

impl Suppliers {
    /// Asks a provider what its dictionaries are, as soon as a service that is taken from it names them.
    pub(super) fn ask_dictionaries(&mut self, provider: ProviderId, sink: &mut impl DistributorSink) {
        let Some(known) = self.providers.get(&provider) else { return };
        let Some(dialled) = &known.dialled else { return };
        let services: Vec<&Service> = dialled.wanted(&known.directory).collect();
        let names = services.iter().flat_map(|s| s.info.dictionaries_used.iter());
        let names = names.chain(services.iter().flat_map(|s| &s.info.dictionaries_provided));
        let foreign = names.filter(|name| kind_of(name.as_bytes()).is_none());
        let foreign: Vec<_> = foreign.map(|name| DictionaryDifference::Name { name: name.clone() }).collect();
        let asked = dialled.dictionaries.asked;
        let missing = STREAM_IDS.iter().zip(asked).filter(|(_, asked)| !asked);
        let requests: Vec<_> =
            missing.filter_map(|(&(kind, stream_id), _)| request(kind, stream_id, &services)).collect();
        for request in requests {
            let Ok(bytes) = request.to_vec() else { continue };
            sink.to_provider(provider, &bytes);
            if let Some(dialled) = self.dialled_mut(provider) {
                dialled.dictionaries.asked[place_of(request.stream_id)] = true;
            }
        }
        for difference in foreign {
            self.note_difference(provider, difference, sink);
        }
    }

    /// What a provider says about one of its dictionaries.
    pub(super) fn on_dictionary_answer(
        &mut self,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let kind = STREAM_IDS.iter().find(|(_, id)| *id == msg.stream_id()).map(|(kind, _)| *kind);
        let (Some(kind), true) = (kind, self.has_asked(provider, msg.stream_id())) else {
            self.counters.messages_unasked.inc();
            return;
        };
        match msg {
            Msg::Refresh(part) => match info_of(kind, part) {
                Ok(Some(theirs)) => self.compare(provider, kind, &theirs, sink),
                // A later part of one that was sent whole though only its summary was asked for.
                Ok(None) => {}
                Err(_) => self.counters.messages_refused.inc(),
            },
            // It does not give it: there is nothing to compare.
            Msg::Status(_) => {}
            _ => self.counters.messages_refused.inc(),
        }
    }

    fn has_asked(&self, provider: ProviderId, stream_id: i32) -> bool {
        self.dialled(provider).is_some_and(|d| d.dictionaries.asked[place_of(stream_id)])
    }

    fn compare(
        &mut self,
        provider: ProviderId,
        kind: DictionaryKind,
        theirs: &DictionaryInfo,
        sink: &mut impl DistributorSink,
    ) {
        let ours = self.dictionary.info();
        let (theirs_version, ours_version) = (version(kind, theirs), version(kind, ours));
        let (theirs_id, ours_id) = (theirs.dictionary_id, ours.dictionary_id);
        let mut found = Vec::new();
        if !theirs_version.is_empty() && theirs_version != ours_version {
            let (theirs, ours) = (theirs_version.to_owned(), ours_version.to_owned());
            found.push(DictionaryDifference::Version { kind, theirs, ours });
        }
        // 0: it does not say.
        if theirs_id != 0 && theirs_id != ours_id {
            found.push(DictionaryDifference::Id { kind, theirs: theirs_id, ours: ours_id });
        }
        for difference in found {
            self.note_difference(provider, difference, sink);
        }
    }

    fn note_difference(
        &mut self,
        provider: ProviderId,
        difference: DictionaryDifference,
        sink: &mut impl DistributorSink,
    ) {
        let Some(dialled) = self.dialled_mut(provider) else { return };
        let differences = &mut dialled.dictionaries.differences;
        if differences.len() < DIFFERENCES_MAX && !differences.contains(&difference) {
            sink.notice(provider, &ProviderNotice::Dictionary(&difference));
            differences.push(difference);
            self.counters.dictionaries_differing.inc();
        }
    }
}

/// Connections.
impl Suppliers {
    pub(super) fn on_dictionary(
        &mut self,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let parts = match DictionaryMsg::parse(msg) {
            Ok(DictionaryMsg::Request(request)) => {
                DictionaryParts::new(&request, &self.dictionary, PartSizes::default())
            }
            Ok(_) => return,
            Err(error) => Err(error),
        };
        match parts {
            Ok(parts) => parts.flatten().for_each(|part| sink.to_provider(provider, &part)),
            Err(error) => {
                self.counters.messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.to_provider(provider, &answer);
                }
            }
        }
    }
}
