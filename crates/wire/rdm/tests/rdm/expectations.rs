//! What a stock consumer looks at before it sends an item request, read from the bytes as it reads them: the
//! five points of the source directory domain, and what its dictionary download waits for.

use rwf::{
    Array, AsciiString, DataType, Decode, Domain, ElementList, FilterAction, FilterList, Map, MapAction, Msg,
    Qos,
};
use tickcast_rdm::ToVec;
use tickcast_rdm::dictionary::{ENUMS_NAME, FIELDS_NAME};
use tickcast_rdm::directory::{
    Directory, DirectoryRefresh, DirectoryRequest, DirectoryUpdate, Filter, Info, QosRange, Refusal, Service,
    ServiceDelta, ServiceState,
};

use crate::support::parse;

/// A service as a distributor offers it.
fn typical() -> Service {
    Service {
        id: 257,
        info: Info {
            name: "DEMO".into(),
            vendor: Some("Tickcast".into()),
            capabilities: vec![Domain::DICTIONARY, Domain::MARKET_PRICE, Domain::MARKET_BY_ORDER],
            dictionaries_provided: vec![FIELDS_NAME.into(), ENUMS_NAME.into()],
            dictionaries_used: vec![FIELDS_NAME.into(), ENUMS_NAME.into()],
            ..Info::default()
        },
        state: ServiceState { up: true, accepting_requests: Some(true), status: None },
        ..Service::default()
    }
}

fn answer(services: &[Service]) -> Vec<u8> {
    let request = DirectoryRequest::all(2);
    DirectoryRefresh::answer(&request, services).expect("unique").to_vec().expect("legal")
}

/// An element of a service's aspect, by type and content, straight from the bytes.
fn element(message: &[u8], aspect: u8, name: &str) -> Option<(DataType, Vec<u8>)> {
    let msg = parse(message);
    assert_eq!(msg.container_type(), DataType::MAP);
    let map = Map::parse(msg.payload()).expect("legal");
    assert_eq!((map.key_type, map.container_type), (DataType::UINT, DataType::FILTER_LIST));
    let service = map.entries().next().expect("one").expect("legal");
    assert_eq!(u64::decode(service.key), Ok(Some(257)));
    let filters = FilterList::parse(service.data.expect("not a delete")).expect("legal");
    let mut filters = filters.entries().map(|filter| filter.expect("legal"));
    let filter = filters.find(|filter| filter.id == aspect)?;
    assert_eq!(filter.container_type, DataType::ELEMENT_LIST);
    let list = ElementList::parse(filter.data.expect("not a clear")).expect("legal");
    let mut elements = list.entries().map(|element| element.expect("legal"));
    let found = elements.find(|element| element.name == name.as_bytes())?;
    Some((found.data_type, found.content.to_vec()))
}

fn uint(message: &[u8], aspect: u8, name: &str) -> Option<u64> {
    let (data_type, content) = element(message, aspect, name)?;
    assert_eq!(data_type, DataType::UINT, "{name}");
    u64::decode(&content).expect("legal")
}

fn items(message: &[u8], aspect: u8, name: &str, item_type: DataType) -> Vec<Vec<u8>> {
    let (data_type, content) = element(message, aspect, name).expect("there");
    assert_eq!(data_type, DataType::ARRAY, "{name}");
    let array = Array::parse(&content).expect("legal");
    assert_eq!(array.item_type, item_type, "{name}");
    array.items().map(|item| item.expect("legal").to_vec()).collect()
}

#[test]
fn the_refresh_of_a_typical_service_lets_a_stock_consumer_ask_for_items() {
    let message = answer(&[typical()]);
    let Msg::Refresh(refresh) = parse(&message) else { panic!("a refresh") };
    assert!(refresh.solicited && refresh.complete && refresh.clear_cache);
    assert_eq!(refresh.key.and_then(|key| key.filter), Some(3));
    assert_eq!(refresh.state, rwf::State::OPEN_OK);

    // 1: the service is known by its name.
    let (name_type, name) = element(&message, 1, "Name").expect("required");
    assert_eq!((name_type, AsciiString(&name)), (DataType::ASCII_STRING, AsciiString(b"DEMO")));
    // 2: it is up and takes requests.
    assert_eq!(uint(&message, 2, "ServiceState"), Some(1));
    assert_eq!(uint(&message, 2, "AcceptingRequests"), Some(1));
    // 3: the item's domain is among the capabilities.
    let capabilities = items(&message, 1, "Capabilities", DataType::UINT);
    assert!(capabilities.contains(&vec![Domain::MARKET_PRICE.0]));
    // 4: real time, tick by tick is on offer.
    assert!(items(&message, 1, "QoS", DataType::QOS).contains(&vec![0x22]));
    // 5: no window is there that could be exhausted.
    assert_eq!(element(&message, 4, "OpenWindow"), None);

    // The automatic download finds both dictionaries, and may ask for them.
    for list in ["DictionariesUsed", "DictionariesProvided"] {
        let names = items(&message, 1, list, DataType::ASCII_STRING);
        assert_eq!(names, [FIELDS_NAME.as_bytes(), ENUMS_NAME.as_bytes()]);
    }
    assert!(capabilities.contains(&vec![Domain::DICTIONARY.0]));
}

/// What our own consumer thinks of the service in a refresh.
fn consumer_view(service: Service) -> Option<Refusal> {
    let message = answer(&[service]);
    let Msg::Refresh(refresh) = parse(&message) else { panic!("a refresh") };
    let mut directory = Directory::default();
    directory.apply_refresh(&DirectoryRefresh::parse(&refresh).expect("legal")).expect("legal");
    let service = directory.service_by_name("DEMO").expect("known by name");
    service.refuses(Domain::MARKET_PRICE, Some(QosRange::exactly(Qos::REAL_TIME)))
}

#[test]
fn each_of_the_five_points_stops_our_own_consumer_too() {
    assert_eq!(consumer_view(typical()), None);
    let with = |change: fn(&mut Service)| {
        let mut service = typical();
        change(&mut service);
        consumer_view(service)
    };
    assert_eq!(with(|service| service.state.accepting_requests = None), None);
    assert_eq!(with(|service| service.state.up = false), Some(Refusal::ServiceDown));
    assert_eq!(with(|service| service.state.accepting_requests = Some(false)), Some(Refusal::NotAccepting));
    let no_capability = Refusal::NoCapability { domain: Domain::MARKET_PRICE };
    assert_eq!(with(|service| service.info.capabilities.clear()), Some(no_capability));
    let delayed = Qos { timeliness: rwf::Timeliness::DelayedUnknown, ..Qos::REAL_TIME };
    let mut late = typical();
    late.info.qos = vec![delayed];
    assert_eq!(consumer_view(late), Some(Refusal::QosUnmatched));
    let mut full = typical();
    full.load.open_window = Some(0);
    assert_eq!(uint(&answer(&[full.clone()]), 4, "OpenWindow"), Some(0));
    assert!(!full.load.has_window(0));
    // A service that is not there is no service that is down.
    let unknown = Directory::default().refuses(257, Domain::MARKET_PRICE, None);
    assert_eq!(unknown, Some(Refusal::ServiceUnknown));
}

#[test]
fn every_entry_that_changes_has_the_elements_that_the_libraries_insist_on() {
    let old = typical();
    let mut new = typical();
    new.state.up = false;
    new.info.capabilities.push(Domain::SYMBOL_LIST);
    let delta = ServiceDelta::between(&old, &new).expect("changed");
    let update =
        DirectoryUpdate { stream_id: 2, filter: Some(Filter::INFO_AND_STATE), services: vec![delta] };
    let message = update.to_vec().expect("legal");
    assert!(element(&message, 1, "Name").is_some() && element(&message, 1, "Capabilities").is_some());
    assert_eq!(uint(&message, 2, "ServiceState"), Some(0));
    let map = Map::parse(parse(&message).payload()).expect("legal");
    let entry = map.entries().next().expect("one").expect("legal");
    assert_eq!(entry.action, MapAction::Update);
    let filters = FilterList::parse(entry.data.expect("not a delete")).expect("legal");
    assert!(filters.entries().all(|filter| filter.expect("legal").action == FilterAction::Update));
}
