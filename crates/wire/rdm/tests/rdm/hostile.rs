//! Input that is cut off, spoilt or made up costs an error, never a panic, and never leaves a directory half
//! changed.

use rwf::{
    Attributes, DataState, DataType, Domain, Key, MapAction, MapHead, Msg, RefreshMsg, State, StateCode,
    StreamState, encode_to_vec,
};
use tickcast_rdm::dictionary::{DictionaryDownload, DictionaryKind, DictionaryMsg};
use tickcast_rdm::directory::{
    Change, Directory, DirectoryLimits, DirectoryMsg, DirectoryRefresh, DirectoryRequest, DirectoryUpdate,
    Edit, Filter, GroupElements, InfoElements, Link, LinkEdit, LinkElements, Load, Service, ServiceData,
    ServiceDataType, ServiceDelta, StateElements,
};
use tickcast_rdm::item::{ItemClose, ItemKey, ItemRequest, View, has_items};
use tickcast_rdm::login::{LoginMsg, LoginRequest, RoundTrip};
use tickcast_rdm::post::Post;
use tickcast_rdm::publish::Publication;
use tickcast_rdm::{Element, OwnedState, Part, RdmError, Reply, ToVec};

use crate::support::{Case, Xorshift, made_messages, sdk_messages};

/// Reads a message as far as this crate reads messages, as both ends would.
fn read(bytes: &[u8], directory: &mut Directory) -> Result<(), RdmError> {
    let msg = Msg::parse(bytes)?;
    let outcome = read_domain(&msg, directory);
    if let Err(error) = &outcome {
        // Whatever was wrong, it can be answered: the key was read from a message and fits into one.
        let answer = Reply::to(&msg).refuse(error).expect("legal");
        assert!(Msg::parse(&answer).is_ok());
    }
    outcome
}

fn read_domain(msg: &Msg<'_>, directory: &mut Directory) -> Result<(), RdmError> {
    match msg.domain() {
        Domain::LOGIN => LoginMsg::parse(msg).map(|_| ()),
        Domain::SOURCE => match DirectoryMsg::parse(msg)? {
            DirectoryMsg::Refresh(refresh) => directory.apply_refresh(&refresh).map(|_| ()),
            DirectoryMsg::Update(update) => directory.apply_update(&update).map(|_| ()),
            _ => Ok(()),
        },
        Domain::DICTIONARY => match DictionaryMsg::parse(msg)? {
            DictionaryMsg::Refresh(refresh) => {
                let mut download = DictionaryDownload::default();
                let enums = refresh.key.is_some_and(|key| key.name == Some(b"RWFEnum"));
                let kind = if enums { DictionaryKind::Enums } else { DictionaryKind::Fields };
                download.request(kind, refresh.stream_id, 1);
                download.take(&refresh).map(|_| ())
            }
            _ => Ok(()),
        },
        _ => read_item(msg),
    }
}

fn read_item(msg: &Msg<'_>) -> Result<(), RdmError> {
    match msg {
        Msg::Request(request) => {
            let request = ItemRequest::parse(request)?;
            assert!(request.singles().take(100).all(|single| has_items(single.domain)));
            Ok(())
        }
        Msg::Close(close) => ItemClose::parse(close).map(|_| ()),
        Msg::Post(post) => Post::parse(post).map(|_| ()),
        Msg::Ack(_) | Msg::Generic(_) => Ok(()),
        _ => Publication::parse(msg).map(|_| ()),
    }
}

/// Recorded messages, and ours where none was recorded.
fn messages() -> Vec<(String, Vec<u8>)> {
    let special = |case: &Case| case.name.starts_with("request/") || case.name.starts_with("close/");
    let recorded = sdk_messages().into_iter().chain(made_messages().into_iter().filter(special));
    recorded.map(|case| (case.name, case.bytes)).chain(our_messages()).collect()
}

fn our_messages() -> Vec<(String, Vec<u8>)> {
    let mut plain = Service { id: 300, ..Service::default() };
    plain.info.name = "PLAIN".into();
    let rich = rich_service();
    let request = DirectoryRequest::all(2);
    let refresh = DirectoryRefresh::answer(&request, [&plain, &rich]).expect("unique");
    let mut poor = plain.clone();
    poor.id = rich.id;
    let there = ServiceDelta::between(&poor, &rich).expect("changes");
    let back = ServiceDelta::between(&rich, &poor).expect("changes");
    let round_trip = RoundTrip {
        stream_id: 1,
        ticks: 1 << 40,
        last_latency_us: Some(250),
        tcp_retransmission_count: Some(3),
    };
    let login = LoginRequest {
        password: Some(b"s3cret"),
        single_open: false,
        download_connection_config: true,
        instance_id: Some(b"2"),
        authentication_extended: Some(&[1, 2, 3]),
        ..LoginRequest::provider(b"someone")
    };
    let view = Some(View::Elements(vec![&b"Name"[..], b"Price"].into()));
    let item = ItemKey::new(300, b"TEST.1");
    let item = ItemRequest { view, ..ItemRequest::streaming(Domain::MARKET_PRICE, 9, item) };
    [
        ("refresh of two services", refresh.to_vec()),
        ("update that adds", update(vec![there, ServiceDelta::removed(7)]).to_vec()),
        ("update that takes away", update(vec![ServiceDelta::added(&rich), back]).to_vec()),
        ("round trip", round_trip.to_vec()),
        ("login", login.to_vec()),
        ("view of elements", item.to_vec()),
    ]
    .into_iter()
    .map(|(name, bytes)| (name.to_owned(), bytes.expect("legal")))
    .collect()
}

/// A service with something in each of its aspects.
fn rich_service() -> Service {
    let status = OwnedState::from(
        State::new(StreamState::Open, DataState::Suspect).because(StateCode::GAP_DETECTED, "gap"),
    );
    let mut rich = Service { id: 12, ..Service::default() };
    rich.info.name = "RICH".into();
    rich.info.capabilities = vec![Domain::MARKET_PRICE, Domain(255)];
    rich.info.dictionaries_used = vec!["RWFFld".into()];
    rich.state.status = Some(status.clone());
    rich.groups.insert(vec![0, 1], status);
    rich.load = Load { open_limit: Some(1 << 33), open_window: Some(0), load_factor: Some(65_535) };
    let content = b"down at noon".to_vec();
    rich.data =
        Some(ServiceData { kind: ServiceDataType::ALERT, data_type: DataType::ASCII_STRING, content });
    rich.links.insert("line".into(), Link { up: true, text: "well".into(), ..Link::default() });
    rich
}

/// Whether this crate looks into the payload: then nothing of it can be cut off without notice.
fn reads_payload(msg: &Msg<'_>) -> bool {
    match msg {
        Msg::Generic(generic) => generic.provider_driven,
        Msg::Request(request) => request.view || request.batch || request.domain == Domain::SYMBOL_LIST,
        Msg::Close(close) => close.batch,
        _ => matches!(msg.domain(), Domain::SOURCE | Domain::DICTIONARY),
    }
}

#[test]
fn a_message_cut_off_anywhere_is_an_error_or_says_less() {
    for (name, bytes) in messages() {
        // Those made with random parts may lack what a request needs.
        let whole_outcome = read(&bytes, &mut Directory::default());
        assert!(whole_outcome.is_ok() || name.starts_with("request/"), "{name}: {whole_outcome:?}");
        let whole = Msg::parse(&bytes).expect("legal");
        for length in 0..bytes.len() {
            let outcome = read(&bytes[..length], &mut Directory::default());
            match Msg::parse(&bytes[..length]) {
                Err(error) => assert_eq!(outcome, Err(error.into()), "{name} at {length}"),
                Ok(cut) => {
                    // The header is whole, the payload is not.
                    assert_eq!((cut.class(), cut.stream_id()), (whole.class(), whole.stream_id()));
                    assert!(cut.payload().len() < whole.payload().len());
                    let overlooked = outcome.is_ok() && reads_payload(&whole);
                    // A list of symbol list behaviours that is cut to nothing says nothing.
                    let says_less = whole.domain() == Domain::SYMBOL_LIST && cut.payload().is_empty();
                    assert!(!overlooked || says_less, "{name} at {length}");
                }
            }
        }
    }
}

#[test]
fn spoilt_messages_are_refused_or_read_but_never_panic() {
    let mut rng = Xorshift(0x7469_636B_6361_7374);
    let mut directory = Directory::default();
    let (mut refused, mut passed) = (0u32, 0u32);
    for (_, bytes) in messages() {
        for _ in 0..300 {
            let mut spoilt = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(spoilt.len());
                spoilt[at] = match rng.below(4) {
                    0 => 0,
                    1 => 0xFF,
                    2 => spoilt[at] ^ (1 << rng.below(8)),
                    _ => rng.below(256) as u8,
                };
            }
            let before = directory.clone();
            match read(&spoilt, &mut directory) {
                Ok(()) => passed += 1,
                Err(_) => {
                    refused += 1;
                    assert!(before.services().eq(directory.services()), "half a message took effect");
                }
            }
            assert_unique(&directory);
        }
    }
    assert!(refused > 1000 && passed > 1000, "{refused} refused, {passed} passed");
}

#[test]
fn every_byte_of_a_directory_can_be_anything() {
    let cases = sdk_messages();
    let case = cases.iter().find(|case| case.name == "big_lz4/04/directory/refresh").expect("recorded");
    for at in 0..case.bytes.len() {
        for value in [0, 1, 0x7F, 0x80, 0xFE, 0xFF] {
            let mut spoilt = case.bytes.clone();
            spoilt[at] = value;
            let mut directory = Directory::default();
            let outcome = read(&spoilt, &mut directory);
            assert!(outcome.is_ok() || directory.service_count() == 0, "at {at}");
            assert_unique(&directory);
        }
    }
}

fn assert_unique(directory: &Directory) {
    let services: Vec<&Service> = directory.services().collect();
    assert_eq!(services.len(), directory.service_count());
    for service in services {
        let by_name = directory.service_by_name(&service.info.name).expect("every service has a name");
        assert_eq!(by_name.id, service.id, "names lead to their services");
    }
}

#[test]
fn attributes_of_another_container_and_services_of_another_shape_are_named() {
    let attributes = Some(Attributes { container_type: DataType::MAP, data: &[] });
    let key = Key { name: Some(b"u"), attributes, ..Key::default() };
    let msg = rwf::RequestMsg { key, ..rwf::RequestMsg::new(Domain::LOGIN, 1, DataType::NO_DATA) };
    let (found, wanted) = (DataType::MAP, DataType::ELEMENT_LIST);
    let wrong = RdmError::WrongType { part: Part::Attributes, found, wanted };
    assert_eq!(LoginRequest::parse(&msg), Err(wrong));

    let refresh_of = |container_type, payload: &[u8]| {
        let msg = RefreshMsg { payload, ..RefreshMsg::new(Domain::SOURCE, 2, container_type) };
        DirectoryRefresh::parse(&msg).map(|refresh| refresh.services.len())
    };
    let wrong =
        RdmError::WrongType { part: Part::Payload, found: DataType::ELEMENT_LIST, wanted: DataType::MAP };
    assert_eq!(refresh_of(DataType::ELEMENT_LIST, &[0]), Err(wrong));
    assert_eq!(refresh_of(DataType::NO_DATA, &[]), Ok(0));
    let map = |key: u64, container_type, action| {
        let head = MapHead::new(DataType::UINT, container_type);
        encode_to_vec(|w| {
            w.map(&head, |m| m.entry(action, key, None, |w| w.filter_list(DataType::MAP, None, |_| ())));
        })
        .expect("legal")
    };
    let lists = map(1, DataType::ELEMENT_LIST, MapAction::Add);
    let (found, wanted) = (DataType::ELEMENT_LIST, DataType::FILTER_LIST);
    let wrong = RdmError::WrongType { part: Part::Services, found, wanted };
    assert_eq!(refresh_of(DataType::MAP, &lists), Err(wrong));
    // Where all are gone, the type of what they held does not matter.
    assert_eq!(refresh_of(DataType::MAP, &map(1, DataType::NO_DATA, MapAction::Delete)), Ok(1));
    let wide = map(65_536, DataType::FILTER_LIST, MapAction::Add);
    let wrong = RdmError::OutOfRange { part: Part::ServiceId, value: 65_536, max: 65_535 };
    assert_eq!(refresh_of(DataType::MAP, &wide), Err(wrong));
}

/// What becomes of a service about which this is said.
fn said(edit: Edit) -> Result<DirectoryUpdate, RdmError> {
    let delta = ServiceDelta { service_id: 1, action: MapAction::Update, edits: vec![edit] };
    let bytes = update(vec![delta]).to_vec().expect("legal");
    DirectoryUpdate::parse(&rwf::UpdateMsg::parse(&bytes).expect("whole"))
}

#[test]
fn an_entry_that_is_all_there_is_must_have_what_the_domain_requires() {
    let missing = |element: Element| RdmError::Missing { part: element.into() };
    let named = InfoElements { name: Some("A".into()), ..InfoElements::default() };
    let capable = InfoElements { capabilities: Some(vec![]), ..InfoElements::default() };
    assert_eq!(said(Edit::Info(Change::Set(named.clone()))), Err(missing(Element::Capabilities)));
    assert_eq!(said(Edit::Info(Change::Set(capable))), Err(missing(Element::Name)));
    assert!(said(Edit::Info(Change::Update(named))).is_ok());
    let stateless = StateElements { accepting_requests: Some(true), ..StateElements::default() };
    assert_eq!(said(Edit::State(Change::Set(stateless.clone()))), Err(missing(Element::ServiceState)));
    assert!(said(Edit::State(Change::Update(stateless))).is_ok());
    let link = |action| {
        let link = LinkEdit { name: "line".into(), action, elements: LinkElements::default() };
        said(Edit::Links(Change::Update(vec![link])))
    };
    assert_eq!(link(MapAction::Add), Err(missing(Element::LinkState)));
    assert!(link(MapAction::Update).is_ok() && link(MapAction::Delete).is_ok());
    let nameless = GroupElements { merged_to: Some(vec![1]), ..GroupElements::default() };
    assert_eq!(said(Edit::Group(Change::Update(nameless))), Err(missing(Element::Group)));
}

#[test]
fn a_list_of_a_service_has_at_most_256_entries() {
    let names = |count| {
        let names = Some(vec!["A".to_owned(); count]);
        let elements = InfoElements { dictionaries_used: names, ..InfoElements::default() };
        said(Edit::Info(Change::Update(elements)))
    };
    assert!(names(256).is_ok());
    let part = Part::Element(Element::DictionariesUsed);
    assert_eq!(names(257), Err(RdmError::TooMany { part, max: 256 }));
}

fn add(service_id: u16, name: &str) -> ServiceDelta {
    let capabilities = Some(vec![Domain::MARKET_PRICE]);
    let info = InfoElements { name: Some(name.into()), capabilities, ..InfoElements::default() };
    let state = StateElements { up: Some(true), ..StateElements::default() };
    let edits = vec![Edit::Info(Change::Set(info)), Edit::State(Change::Set(state))];
    ServiceDelta { service_id, action: MapAction::Add, edits }
}

fn update(services: Vec<ServiceDelta>) -> DirectoryUpdate {
    DirectoryUpdate { stream_id: 2, filter: Some(Filter::ALL), services }
}

#[test]
fn a_directory_holds_no_more_than_its_limits() {
    let limits = DirectoryLimits { service_count_max: 2, service_bytes_max: 200 };
    let mut directory = Directory::new(limits);
    directory.apply_update(&update(vec![add(1, "A"), add(2, "B")])).expect("two fit");
    let third = directory.apply_update(&update(vec![add(3, "C")]));
    assert_eq!(third, Err(RdmError::TooMany { part: Part::Services, max: 2 }));
    directory
        .apply_update(&update(vec![add(3, "C"), ServiceDelta::removed(1)]))
        .expect("there are two when all is said");
    let long = directory.apply_update(&update(vec![add(2, &"B".repeat(201))]));
    assert_eq!(long, Err(RdmError::TooMany { part: Part::ServiceBytes, max: 200 }));
    let names: Vec<_> = directory.services().map(|service| service.info.name.as_str()).collect();
    assert_eq!(names, ["B", "C"]);
    let service = Service { id: 2, ..Service::default() };
    assert_eq!(directory.insert(service), Err(RdmError::Missing { part: Element::Name.into() }));
}

#[test]
fn a_name_of_256_bytes_cannot_be_sent() {
    let long = [b'x'; 256];
    assert!(LoginRequest::consumer(&long).to_vec().is_err());
    assert!(LoginRequest::consumer(&long[1..]).to_vec().is_ok());
}
