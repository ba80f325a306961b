//! The directory: what a leader says is what a follower knows, whatever the order and the cuts.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use rwf::{
    DataState, DataType, Domain, MapAction, Msg, Qos, Rate, State, StateCode, StreamState, Timeliness,
};
use tickcast_rdm::directory::{
    Change, Directory, DirectoryChange, DirectoryMsg, DirectoryRefresh, DirectoryRequest, DirectoryUpdate,
    Edit, Filter, GroupElements, Info, InfoElements, Link, LinkCode, LinkType, Load, LoadElements, Service,
    ServiceData, ServiceDataType, ServiceDelta, ServiceState, StateElements,
};
use tickcast_rdm::{OwnedState, RdmError, ToVec};

fn state(stream: StreamState, data: DataState, text: &str) -> OwnedState {
    State::new(stream, data).because(StateCode::NONE, text).into()
}

fn suspect(text: &str) -> OwnedState {
    state(StreamState::Open, DataState::Suspect, text)
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec("[A-Za-z]{1,8}", 0..3)
}

fn qualities() -> impl Strategy<Value = Qos> {
    let timeliness = prop_oneof![
        Just(Timeliness::RealTime),
        Just(Timeliness::DelayedUnknown),
        any::<u16>().prop_map(Timeliness::Delayed),
    ];
    let rate = prop_oneof![
        Just(Rate::TickByTick),
        Just(Rate::JustInTimeConflated),
        any::<u16>().prop_map(Rate::TimeConflated),
    ];
    (timeliness, rate, any::<bool>()).prop_map(|(timeliness, rate, dynamic)| Qos {
        timeliness,
        rate,
        dynamic,
    })
}

prop_compose! {
    fn infos()(
        name in "[A-Z]{1,12}",
        vendor in option::of(".{1,12}"),
        flags in any::<[bool; 4]>(),
        capabilities in vec(any::<u8>().prop_map(Domain), 0..6),
        dictionaries_provided in names(),
        dictionaries_used in names(),
        qos in vec(qualities(), 1..3),
        item_list in option::of("[#A-Z]{1,8}"),
        path in vec(any::<u64>(), 0..4),
    ) -> Info {
        let [is_source, supports_qos_range, snapshots, accepting_consumer_status] = flags;
        Info {
            name, vendor, is_source, capabilities, dictionaries_provided, dictionaries_used, qos,
            supports_qos_range, item_list, supports_out_of_band_snapshots: snapshots,
            accepting_consumer_status, path,
        }
    }
}

fn troubles() -> impl Strategy<Value = OwnedState> {
    (".{0,20}", any::<u8>()).prop_map(|(text, code)| OwnedState { code: StateCode(code), ..suspect(&text) })
}

fn states() -> impl Strategy<Value = ServiceState> {
    let parts = (any::<bool>(), option::of(any::<bool>()), option::of(troubles()));
    parts.prop_map(|(up, accepting_requests, status)| ServiceState { up, accepting_requests, status })
}

fn links() -> impl Strategy<Value = Link> {
    let parts = (1..3u64, any::<bool>(), 0..5u64, ".{0,8}");
    parts.prop_map(|(kind, up, code, text)| Link { kind: LinkType(kind), up, code: LinkCode(code), text })
}

fn data() -> impl Strategy<Value = ServiceData> {
    let types = prop_oneof![Just(DataType::BUFFER), Just(DataType::ELEMENT_LIST), Just(DataType::NO_DATA)];
    (1..5u64, types, vec(any::<u8>(), 0..6)).prop_map(|(kind, data_type, content)| ServiceData {
        kind: ServiceDataType(kind),
        content: if data_type == DataType::NO_DATA { vec![] } else { content },
        data_type,
    })
}

prop_compose! {
    fn services(id: u16)(
        info in infos(),
        state in states(),
        groups in btree_map(vec(any::<u8>(), 1..4), troubles(), 0..3),
        load in option::of((option::of(any::<u64>()), option::of(any::<u64>()), option::of(0..65536u64))),
        data in option::of(data()),
        links in btree_map("[a-z]{1,6}", links(), 0..3),
    ) -> Service {
        let (open_limit, open_window, load_factor) = load.unwrap_or_default();
        // Names that differ by service are what makes them unique.
        let info = Info { name: format!("{}{id}", info.name), ..info };
        let load = Load { open_limit, open_window, load_factor };
        Service { id, info, state, groups, load, data, links }
    }
}

/// A handful of services of different ids.
fn directories() -> impl Strategy<Value = Vec<Service>> {
    prop::collection::btree_set(any::<u16>(), 0..4)
        .prop_flat_map(|ids| ids.into_iter().map(services).collect::<Vec<_>>())
}

fn sent_refresh(refresh: &DirectoryRefresh<'_>, into: &mut Directory) -> Vec<DirectoryChange> {
    let bytes = refresh.to_vec().expect("legal");
    let Ok(DirectoryMsg::Refresh(back)) = DirectoryMsg::parse(&Msg::parse(&bytes).expect("whole")) else {
        panic!("a refresh")
    };
    assert_eq!(&back, refresh);
    into.apply_refresh(&back).expect("legal")
}

fn sent_update(services: Vec<ServiceDelta>, into: &mut Directory) -> Vec<DirectoryChange> {
    let update = DirectoryUpdate { stream_id: 2, filter: None, services };
    let bytes = update.to_vec().expect("legal");
    let Ok(DirectoryMsg::Update(back)) = DirectoryMsg::parse(&Msg::parse(&bytes).expect("whole")) else {
        panic!("an update")
    };
    assert_eq!(back, update);
    into.apply_update(&back).expect("legal")
}

fn follower(services: &[Service]) -> Directory {
    let mut follower = Directory::default();
    let refresh = DirectoryRefresh::answer(&DirectoryRequest::all(2), services).expect("unique");
    sent_refresh(&refresh, &mut follower);
    follower
}

fn assert_knows(follower: &Directory, services: &[Service]) {
    assert_eq!(follower.services().cloned().collect::<Vec<_>>(), services);
}

/// One thing a leader does.
#[derive(Clone, Debug)]
enum Act {
    Insert(Box<Service>),
    TakeDown(usize),
    Remove(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let insert = (0..5u16).prop_flat_map(services).prop_map(|service| Act::Insert(Box::new(service)));
    let act = prop_oneof![
        3 => insert,
        2 => any::<usize>().prop_map(Act::TakeDown),
        1 => any::<usize>().prop_map(Act::Remove),
    ];
    vec(act, 1..12)
}

testkit::properties! {
    #[test]
    fn a_refresh_tells_a_follower_everything(services in directories()) {
        assert_knows(&follower(&services), &services);
    }

    #[test]
    fn what_lies_between_two_services_leads_from_one_to_the_other(
        (old, new) in any::<u16>().prop_flat_map(|id| (services(id), services(id))),
    ) {
        let mut follower = follower(std::slice::from_ref(&old));
        match ServiceDelta::between(&old, &new) {
            Some(delta) => { sent_update(vec![delta], &mut follower); }
            None => prop_assert_eq!(&old, &new),
        }
        assert_knows(&follower, std::slice::from_ref(&new));
        prop_assert_eq!(ServiceDelta::between(&new, &new), None);
    }

    #[test]
    fn a_follower_that_joins_at_any_time_knows_what_the_leader_knows(acts in acts(), join in 0..12usize) {
        let mut leader = Directory::default();
        let mut follower = None;
        for (at, act) in acts.into_iter().enumerate() {
            if at == join {
                let refresh = DirectoryRefresh::answer(&DirectoryRequest::all(2), leader.services());
                let mut joined = Directory::default();
                sent_refresh(&refresh.expect("unique"), &mut joined);
                follower = Some(joined);
            }
            let ids: Vec<u16> = leader.services().map(|service| service.id).collect();
            let pick = |at: usize| ids.get(at % ids.len().max(1)).copied().unwrap_or(9);
            let delta = match act {
                Act::Insert(service) => leader.insert(*service).expect("unique"),
                Act::TakeDown(at) => {
                    leader.change(pick(at), |service| service.state.up = false).unwrap_or(None)
                }
                Act::Remove(at) => leader.remove(pick(at)),
            };
            if let (Some(follower), Some(delta)) = (&mut follower, delta) {
                sent_update(vec![delta], follower);
            }
        }
        if let Some(follower) = follower {
            assert_knows(&follower, &leader.services().cloned().collect::<Vec<_>>());
        }
    }

    /// Changes of different aspects, and of different services, say nothing about each other.
    #[test]
    fn deltas_in_any_legal_order_end_in_the_same_directory(
        olds in [services(1), services(2), services(3)],
        news in [services(1), services(2), services(3)],
        order in any::<u64>(),
    ) {
        let split = |(old, new): (&Service, &Service)| -> Vec<ServiceDelta> {
            let Some(delta) = ServiceDelta::between(old, new) else { return vec![] };
            let alone = |edit| ServiceDelta { edits: vec![edit], ..delta.clone() };
            delta.edits.clone().into_iter().map(alone).collect()
        };
        let mut deltas: Vec<_> = olds.iter().zip(&news).flat_map(split).collect();
        let mut follower = follower(&olds);
        let mut draw = order | 1;
        while !deltas.is_empty() {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let next = deltas.swap_remove((draw >> 33) as usize % deltas.len());
            sent_update(vec![next], &mut follower);
        }
        assert_knows(&follower, &news);
    }

    #[test]
    fn a_consumer_hears_of_the_aspects_it_asked_for_and_no_others(
        (old, new) in any::<u16>().prop_flat_map(|id| (services(id), services(id))),
        bits in 0..64u32,
    ) {
        let filter = Filter(bits);
        let request = DirectoryRequest { filter, ..DirectoryRequest::all(2) };
        let refresh = DirectoryRefresh::answer(&request, std::slice::from_ref(&old)).expect("unique");
        let delivered = refresh.filter.expect("always said");
        prop_assert_eq!(delivered.and(filter), delivered);
        prop_assert!(refresh.services[0].edits.iter().all(|edit| filter.wants(edit.aspect())));
        let delta = ServiceDelta::between(&old, &new);
        let wanted = delta.as_ref().and_then(|delta| delta.restricted(filter));
        let heard = DirectoryUpdate::answer(&request, delta.as_slice());
        prop_assert_eq!(wanted, heard.map(|update| update.services[0].clone()));
    }

    #[test]
    fn a_refresh_in_parts_is_as_good_as_a_whole_one(
        (olds, news) in (directories(), directories()),
        cut in any::<usize>(),
    ) {
        let mut follower = follower(&olds);
        let whole = DirectoryRefresh::answer(&DirectoryRequest::all(2), &news).expect("unique");
        let (first, rest) = whole.services.split_at(cut % (whole.services.len() + 1));
        let first = DirectoryRefresh { services: first.to_vec(), complete: false, ..whole.clone() };
        let rest = DirectoryRefresh { services: rest.to_vec(), clear_cache: false, ..whole };
        let before: Vec<u16> = follower.services().map(|service| service.id).collect();
        let changes = sent_refresh(&first, &mut follower);
        let made_way = |change: &DirectoryChange| matches!(change, DirectoryChange::Removed { .. });
        prop_assert!(!changes.iter().any(made_way), "nothing is gone before all is said");
        sent_refresh(&rest, &mut follower);
        assert_knows(&follower, &news);
        prop_assert!(before.len() == olds.len());
    }
}

fn service(id: u16, name: &str) -> Service {
    let capabilities = vec![Domain::MARKET_PRICE];
    Service {
        id,
        info: Info { name: name.into(), capabilities, ..Info::default() },
        state: ServiceState { up: true, ..ServiceState::default() },
        ..Service::default()
    }
}

fn refresh_of(services: &[Service]) -> DirectoryRefresh<'static> {
    DirectoryRefresh::answer(&DirectoryRequest::all(2), services).expect("unique")
}

fn update(service_id: u16, edits: Vec<Edit>) -> ServiceDelta {
    ServiceDelta { service_id, action: MapAction::Update, edits }
}

fn status_edit(up: Option<bool>, status: Option<OwnedState>) -> Edit {
    Edit::State(Change::Update(StateElements { up, status, ..StateElements::default() }))
}

#[test]
fn every_kind_of_change_is_told_once() {
    let mut directory = Directory::default();
    let (a, b) = (service(1, "A"), service(2, "B"));
    let added = |service_id| DirectoryChange::Added { service_id };
    assert_eq!(sent_refresh(&refresh_of(&[a.clone(), b]), &mut directory), [added(1), added(2)]);
    let mut changed = a.clone();
    changed.info.is_source = true;
    changed.state.up = false;
    changed.load.load_factor = Some(7);
    changed.data =
        Some(ServiceData { kind: ServiceDataType::TIME, data_type: DataType::UINT, content: vec![1] });
    changed.links.insert("line".into(), Link::default());
    let delta = ServiceDelta::between(&a, &changed).expect("changed");
    let wanted = [
        DirectoryChange::Info { service_id: 1 },
        DirectoryChange::State { service_id: 1, status: None },
        DirectoryChange::Load { service_id: 1 },
        DirectoryChange::Data { service_id: 1 },
        DirectoryChange::Links { service_id: 1 },
    ];
    assert_eq!(sent_update(vec![delta.clone()], &mut directory), wanted);
    assert_eq!(sent_update(vec![delta], &mut directory), [], "the same again is no change");
    let removed = DirectoryChange::Removed { service_id: 2, name: "B".into() };
    assert_eq!(sent_update(vec![ServiceDelta::removed(2)], &mut directory), [removed]);
    assert_eq!(sent_update(vec![ServiceDelta::removed(2)], &mut directory), []);
    assert!(directory.service_by_name("B").is_none());
}

#[test]
fn a_status_of_all_items_is_told_each_time_and_lasts_only_while_it_is_trouble() {
    let mut directory = follower(&[service(1, "A")]);
    let told = |status: &OwnedState| DirectoryChange::State { service_id: 1, status: Some(status.clone()) };
    let trouble = suspect("line down");
    let troubled = update(1, vec![status_edit(None, Some(trouble.clone()))]);
    assert_eq!(sent_update(vec![troubled.clone()], &mut directory), [told(&trouble)]);
    assert_eq!(sent_update(vec![troubled], &mut directory), [told(&trouble)]);
    assert_eq!(directory.service(1).expect("known").state.status, Some(trouble));
    let closed = state(StreamState::ClosedRecover, DataState::Suspect, "gone");
    assert_eq!(
        sent_update(vec![update(1, vec![status_edit(None, Some(closed.clone()))])], &mut directory),
        [told(&closed)]
    );
    assert_eq!(directory.service(1).expect("known").state.status, None);
    // An update of the state without a status ends the trouble.
    let mut directory = follower(&[service(1, "A")]);
    sent_update(vec![update(1, vec![status_edit(Some(false), Some(suspect("down")))])], &mut directory);
    sent_update(vec![update(1, vec![status_edit(Some(true), None)])], &mut directory);
    let ServiceState { up, status, .. } = &directory.service(1).expect("known").state;
    assert_eq!((*up, status), (true, &None));
}

#[test]
fn a_leader_tells_what_happens_once_and_remembers_what_lasts() {
    let mut leader = Directory::default();
    leader.insert(service(1, "A")).expect("unique");
    let mut follower = follower(&[service(1, "A")]);
    let closed = state(StreamState::ClosedRecover, DataState::Suspect, "gone");
    let troubled = suspect("gap");
    let delta = leader.change(1, |service| {
        service.state.status = Some(closed.clone());
        service.groups.insert(vec![1], closed.clone());
        service.groups.insert(vec![2], troubled.clone());
    });
    let changes = sent_update(vec![delta.expect("legal").expect("a change")], &mut follower);
    let group = |id, status: &OwnedState| DirectoryChange::Group {
        service_id: 1,
        group: GroupElements { group_id: vec![id], merged_to: None, status: Some(status.clone()) },
    };
    let told = DirectoryChange::State { service_id: 1, status: Some(closed.clone()) };
    assert_eq!(changes, [told, group(1, &closed), group(2, &troubled)]);
    let mut lasting = service(1, "A");
    lasting.groups.insert(vec![2], troubled);
    for directory in [&leader, &follower] {
        assert_knows(directory, std::slice::from_ref(&lasting));
    }
}

#[test]
fn a_link_may_lose_its_text() {
    let mut old = service(1, "A");
    old.links.insert("line".into(), Link { text: "recovering".into(), ..Link::default() });
    let mut new = service(1, "A");
    new.links.insert("line".into(), Link::default());
    let mut directory = follower(std::slice::from_ref(&old));
    let delta = ServiceDelta::between(&old, &new).expect("a change");
    assert_eq!(sent_update(vec![delta], &mut directory), [DirectoryChange::Links { service_id: 1 }]);
    assert_knows(&directory, &[new]);
}

#[test]
fn to_add_a_service_that_is_there_replaces_it() {
    let mut loaded = service(1, "A");
    loaded.load.open_limit = Some(5);
    let mut directory = follower(&[loaded]);
    let again = DirectoryRefresh { clear_cache: false, ..refresh_of(&[service(1, "A")]) };
    assert_eq!(sent_refresh(&again, &mut directory), [DirectoryChange::Load { service_id: 1 }]);
    assert_knows(&directory, &[service(1, "A")]);
}

#[test]
fn what_happens_to_a_group_is_told_and_trouble_is_remembered() {
    let mut directory = follower(&[service(1, "A")]);
    let group = |id: &[u8], merged_to: Option<&[u8]>, status: Option<OwnedState>| GroupElements {
        group_id: id.to_vec(),
        merged_to: merged_to.map(<[u8]>::to_vec),
        status,
    };
    let ok = state(StreamState::Open, DataState::Ok, "");
    for (what, left) in [
        (group(b"\x00\x01", None, Some(suspect("gap"))), 1),
        (group(b"\x00\x02", None, Some(suspect("gap"))), 2),
        (group(b"\x00\x01", None, Some(ok)), 1),
        (group(b"\x00\x02", Some(b"\x00\x03"), None), 0),
        (group(b"\x00\x04", None, None), 0),
    ] {
        let delta = update(1, vec![Edit::Group(Change::Update(what.clone()))]);
        let told = DirectoryChange::Group { service_id: 1, group: what };
        assert_eq!(sent_update(vec![delta], &mut directory), [told]);
        assert_eq!(directory.service(1).expect("known").groups.len(), left);
    }
}

#[test]
fn a_refresh_that_clears_the_cache_removes_what_it_does_not_name() {
    let mut directory = follower(&[service(1, "A"), service(2, "B")]);
    let changes = sent_refresh(&refresh_of(&[service(2, "B"), service(3, "A")]), &mut directory);
    let removed = DirectoryChange::Removed { service_id: 1, name: "A".into() };
    assert_eq!(changes, [DirectoryChange::Added { service_id: 3 }, removed]);
    assert_eq!(directory.service_by_name("A").map(|service| service.id), Some(3));
    // Without the flag it adds and replaces.
    let more = DirectoryRefresh { clear_cache: false, ..refresh_of(&[service(1, "C")]) };
    sent_refresh(&more, &mut directory);
    assert_eq!(directory.service_count(), 3);
}

#[test]
fn after_a_lost_connection_the_next_whole_refresh_is_the_truth() {
    let mut directory = follower(&[service(1, "A"), service(2, "B")]);
    directory.expect_image();
    let part = DirectoryRefresh { clear_cache: false, complete: false, ..refresh_of(&[service(2, "B")]) };
    assert_eq!(sent_refresh(&part, &mut directory), [], "services stay until all is said");
    assert_eq!(directory.service_count(), 2);
    let last = DirectoryRefresh { clear_cache: false, ..refresh_of(&[]) };
    let removed = DirectoryChange::Removed { service_id: 1, name: "A".into() };
    assert_eq!(sent_refresh(&last, &mut directory), [removed]);
}

#[test]
fn a_service_that_is_not_confirmed_makes_way_for_another_of_its_name() {
    let mut directory = follower(&[service(1, "A"), service(2, "B")]);
    directory.expect_image();
    let part = DirectoryRefresh { clear_cache: false, complete: false, ..refresh_of(&[service(7, "A")]) };
    let removed = DirectoryChange::Removed { service_id: 1, name: "A".into() };
    assert_eq!(sent_refresh(&part, &mut directory), [DirectoryChange::Added { service_id: 7 }, removed]);
    assert_eq!(directory.service_by_name("A").map(|service| service.id), Some(7));
}

#[test]
fn a_service_that_is_not_confirmed_makes_way_even_if_the_message_speaks_of_it() {
    let mut directory = follower(&[service(9, "A")]);
    directory.expect_image();
    let mut part = refresh_of(&[service(7, "A")]);
    part.services.push(update(9, vec![status_edit(Some(false), None)]));
    let part = DirectoryRefresh { clear_cache: false, complete: false, ..part };
    sent_refresh(&part, &mut directory);
    assert_knows(&directory, &[service(7, "A")]);
    assert_eq!(directory.service_by_name("A").map(|service| service.id), Some(7));
}

#[test]
fn a_leader_may_give_the_name_of_a_removed_service_to_another() {
    let mut leader = Directory::default();
    leader.insert(service(1, "A")).expect("unique");
    assert_eq!(leader.remove(1), Some(ServiceDelta::removed(1)));
    assert_eq!(leader.remove(1), None);
    assert!(leader.service_by_name("A").is_none());
    leader.insert(service(2, "A")).expect("the name is free");
    leader.insert(service(1, "B")).expect("the id is free");
    assert_eq!(leader.remove(2), Some(ServiceDelta::removed(2)));
    assert_knows(&leader, &[service(1, "B")]);
}

#[test]
fn names_and_ids_are_unique_when_all_is_said_or_nothing_changes() {
    let mut directory = follower(&[service(1, "A"), service(2, "B")]);
    let apply = |directory: &mut Directory, services: Vec<ServiceDelta>| {
        directory.apply_update(&DirectoryUpdate { stream_id: 2, filter: None, services })
    };
    let added = |id, name| ServiceDelta::added(&service(id, name));
    let twice = apply(&mut directory, vec![added(3, "C"), added(3, "D")]);
    assert_eq!(twice, Err(RdmError::DuplicateServiceId { service_id: 3 }));
    let same = apply(&mut directory, vec![added(3, "C"), added(4, "A")]);
    assert_eq!(same, Err(RdmError::DuplicateServiceName { service_id: 1, other_id: 4 }));
    let pair = apply(&mut directory, vec![added(3, "C"), added(4, "C")]);
    assert_eq!(pair, Err(RdmError::DuplicateServiceName { service_id: 3, other_id: 4 }));
    assert_eq!(
        directory.insert(service(5, "B")),
        Err(RdmError::DuplicateServiceName { service_id: 2, other_id: 5 })
    );
    assert_knows(&directory, &[service(1, "A"), service(2, "B")]);
    // Two services may exchange their names in one message.
    let renamed = |id: u16, name: &str| {
        let info = InfoElements { name: Some(name.into()), ..InfoElements::default() };
        update(id, vec![Edit::Info(Change::Update(info))])
    };
    sent_update(vec![renamed(1, "B"), renamed(2, "A")], &mut directory);
    assert_knows(&directory, &[service(1, "B"), service(2, "A")]);
    assert_eq!(directory.service_by_name("A").map(|service| service.id), Some(2));
    // A name is free once its service is gone.
    sent_update(vec![ServiceDelta::removed(1), added(9, "B")], &mut directory);
    assert_eq!(directory.service_by_name("B").map(|service| service.id), Some(9));
}

#[test]
fn an_update_of_an_unknown_service_must_say_enough_to_add_it() {
    let mut directory = Directory::default();
    let unknown = update(1, vec![status_edit(Some(true), None)]);
    let refused =
        directory.apply_update(&DirectoryUpdate { stream_id: 2, filter: None, services: vec![unknown] });
    assert_eq!(refused, Err(RdmError::UnknownService { service_id: 1 }));
    let whole = ServiceDelta { action: MapAction::Update, ..ServiceDelta::added(&service(1, "A")) };
    assert_eq!(sent_update(vec![whole], &mut directory), [DirectoryChange::Added { service_id: 1 }]);
    let cleared = update(1, vec![Edit::Info(Change::Clear)]);
    let refused =
        directory.apply_update(&DirectoryUpdate { stream_id: 2, filter: None, services: vec![cleared] });
    assert_eq!(refused, Err(RdmError::Missing { part: tickcast_rdm::Element::Name.into() }));
    assert_eq!(directory.change(2, |_| ()), Err(RdmError::UnknownService { service_id: 2 }));
}

#[test]
fn services_with_blank_names_are_known_and_keep_nobody_from_being_told() {
    let mut directory = Directory::default();
    let added = |(id, name)| ServiceDelta::added(&service(id, name));
    let changes = sent_update([(1, ""), (2, "A"), (3, "")].map(added).to_vec(), &mut directory);
    assert_eq!(changes.len(), 3);
    sent_update(vec![update(1, vec![status_edit(Some(true), None)])], &mut directory);
    assert_eq!(directory.service_count(), 3);
    assert!(directory.service_by_name("").is_none());
    let renamed = InfoElements { name: Some("B".into()), ..InfoElements::default() };
    sent_update(vec![update(1, vec![Edit::Info(Change::Update(renamed))])], &mut directory);
    assert_eq!(directory.service_by_name("B").map(|service| service.id), Some(1));
    sent_update(vec![ServiceDelta::removed(3)], &mut directory);
    assert_eq!(directory.services().map(|known| &*known.info.name).collect::<Vec<_>>(), ["B", "A"]);
}

#[test]
fn a_set_forgets_what_it_does_not_say_and_an_update_keeps_it() {
    let mut loaded = service(1, "A");
    loaded.load = Load { open_limit: Some(5), open_window: Some(6), load_factor: None };
    loaded.links.insert("line".into(), Link { up: true, ..Link::default() });
    let mut directory = follower(&[loaded]);
    let elements = LoadElements { load_factor: Some(9), ..LoadElements::default() };
    sent_update(vec![update(1, vec![Edit::Load(Change::Update(elements))])], &mut directory);
    assert_eq!(directory.service(1).expect("known").load.open_limit, Some(5));
    sent_update(vec![update(1, vec![Edit::Load(Change::Set(elements))])], &mut directory);
    assert_eq!(directory.service(1).expect("known").load, elements);
    sent_update(
        vec![update(
            1,
            vec![Edit::Load(Change::Clear), Edit::Links(Change::Clear), Edit::State(Change::Clear)],
        )],
        &mut directory,
    );
    let Service { load, links, state, .. } = directory.service(1).expect("known");
    assert_eq!((load, links.len(), state.up), (&Load::default(), 0, false));
}
