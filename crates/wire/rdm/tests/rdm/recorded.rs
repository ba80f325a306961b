//! Every message that stock consumers and providers were recorded to send is read to what it says, and
//! written again with the same content.

use rwf::{Domain, Msg, Priority, Qos, RequestMsg};
use serde_json::Value as Json;
use tickcast_rdm::ToVec;
use tickcast_rdm::dictionary::{DictionaryMsg, DictionaryParts, PartSizes, Verbosity};
use tickcast_rdm::directory::{Directory, DirectoryMsg, DirectoryRefresh, Service};
use tickcast_rdm::item::{CloseTarget, DataStreams, ItemClose, ItemKey, ItemRequest, Target, View, symbols};
use tickcast_rdm::login::{LoginMsg, LoginRefresh, LoginRequest, NameType, Role};
use tickcast_rdm::post::{Acknowledged, Post, PostTarget, ack, nak};
use tickcast_rdm::publish::{Publication, Published, PublishedItem};

use crate::support::{
    Case, assert_same_content, has_flag, list, made_messages, number, parse, sdk_messages, text,
};

/// The recorded messages of a class and domain. There must be some.
fn recorded(class: &str, wanted: impl Fn(u64) -> bool) -> Vec<Case> {
    let is_wanted = |case: &Case| {
        case.decoded["msg_class"] == class && case.decoded["domain"].as_u64().is_some_and(&wanted)
    };
    let cases: Vec<Case> = sdk_messages().into_iter().filter(is_wanted).collect();
    assert!(!cases.is_empty(), "no {class} of that domain was recorded");
    cases
}

fn is_item(domain: u64) -> bool {
    !matches!(domain, 1 | 4 | 5)
}

/// The value that an element list in a description has under a name.
fn element<'j>(list_json: &'j Json, name: &str) -> Option<&'j Json> {
    list(&list_json["entries"]).iter().find(|entry| entry["name"] == name).map(|entry| &entry["value"])
}

fn element_text<'j>(list_json: &'j Json, name: &str) -> Option<&'j [u8]> {
    element(list_json, name).map(|value| text(&value["text"]).as_bytes())
}

fn element_number(list_json: &Json, name: &str) -> Option<u64> {
    element(list_json, name).map(|value| value.as_u64().expect("unsigned"))
}

fn element_flag(list_json: &Json, name: &str) -> Option<bool> {
    element_number(list_json, name).map(|number| number != 0)
}

/// Checks that a description has no elements but these, so that nothing goes unchecked.
fn assert_only(list_json: &Json, known: &[&str]) {
    for entry in list(&list_json["entries"]) {
        assert!(known.contains(&text(&entry["name"])), "unchecked element {}", entry["name"]);
    }
}

fn assert_state(state: rwf::State<'_>, json: &Json) {
    let found = (state.stream as i64, state.data as i64, i64::from(state.code.0), state.text);
    let stated = (number(&json["stream"]), number(&json["data"]), number(&json["code"]), text(&json["text"]));
    assert_eq!(found, (stated.0, stated.1, stated.2, stated.3.as_bytes()));
}

fn assert_real_time(qos: Option<Qos>, json: &Json) {
    assert_eq!(qos.is_some(), !json.is_null());
    if let Some(qos) = qos {
        assert_eq!((number(&json["timeliness"]), number(&json["rate"])), (1, 1), "only these were recorded");
        assert_eq!(qos, Qos::REAL_TIME);
    }
}

fn assert_item(item: Option<ItemKey<'_>>, key: &Json) {
    assert_eq!(item.is_some(), !key.is_null());
    if let Some(item) = item {
        assert_eq!(i64::from(item.service_id), number(&key["service_id"]));
        assert_eq!(item.name, text(&key["name"]).as_bytes());
        assert_eq!(item.name_type.map(i64::from), key["name_type"].as_i64());
    }
}

#[test]
fn login_requests_are_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("REQUEST", |domain| domain == 1) {
        let Ok(LoginMsg::Request(login)) = LoginMsg::parse(&parse(&bytes)) else { panic!("{name}") };
        let (key, attributes) = (&decoded["key"], &decoded["key"]["attrib"]);
        assert_eq!(i64::from(login.stream_id), number(&decoded["stream_id"]));
        assert_eq!(login.name, text(&key["name"]).as_bytes());
        assert_eq!(i64::from(login.name_type.0), number(&key["name_type"]));
        assert_only(
            attributes,
            &["ApplicationId", "ApplicationName", "Position", "Password", "Role", "RoundTripLatency"],
        );
        assert_eq!(Some(login.application_id), element_text(attributes, "ApplicationId"));
        assert_eq!(login.application_name, element_text(attributes, "ApplicationName"));
        assert_eq!(login.position, element_text(attributes, "Position"));
        assert_eq!(login.password, element_text(attributes, "Password"));
        assert_eq!(Some(login.role as u64), element_number(attributes, "Role"));
        assert_eq!(login.role == Role::Provider, name.starts_with("ni/"));
        assert_eq!(login.round_trip_latency, element_number(attributes, "RoundTripLatency"));
        // What they do not send has its default.
        let LoginRequest { single_open, allow_suspect_data, download_connection_config, .. } = login;
        assert!(single_open && allow_suspect_data && !download_connection_config);
        assert_same_content(&name, &bytes, &login.to_vec().expect("legal"));
    }
}

#[test]
fn login_refreshes_are_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("REFRESH", |domain| domain == 1) {
        let Ok(LoginMsg::Refresh(login)) = LoginMsg::parse(&parse(&bytes)) else { panic!("{name}") };
        let (key, attributes) = (&decoded["key"], &decoded["key"]["attrib"]);
        assert_state(login.state, &decoded["state"]);
        assert_eq!(login.solicited, has_flag(&decoded, "SOLICITED"));
        assert_eq!(login.name, Some(text(&key["name"]).as_bytes()));
        assert_eq!(login.name_type, Some(NameType::USER_NAME));
        assert_login_attributes(&login, attributes);
        assert_same_content(&name, &bytes, &login.to_vec().expect("legal"));
    }
}

fn assert_login_attributes(login: &LoginRefresh<'_>, attributes: &Json) {
    assert_only(
        attributes,
        &[
            "ApplicationId",
            "ApplicationName",
            "Position",
            "SingleOpen",
            "AllowSuspectData",
            "ProvidePermissionExpressions",
            "ProvidePermissionProfile",
            "SupportBatchRequests",
            "SupportViewRequests",
            "SupportOMMPost",
            "SupportOptimizedPauseResume",
        ],
    );
    assert_eq!(login.application_id, element_text(attributes, "ApplicationId"));
    assert_eq!(login.application_name, element_text(attributes, "ApplicationName"));
    assert_eq!(login.position, element_text(attributes, "Position"));
    assert_eq!(login.single_open, element_flag(attributes, "SingleOpen"));
    assert_eq!(login.allow_suspect_data, element_flag(attributes, "AllowSuspectData"));
    let expressions = element_flag(attributes, "ProvidePermissionExpressions");
    assert_eq!(login.provide_permission_expressions, expressions);
    assert_eq!(login.provide_permission_profile, element_flag(attributes, "ProvidePermissionProfile"));
    let features = login.features;
    let batch = element_number(attributes, "SupportBatchRequests");
    assert_eq!(features.batch_requests.map(|support| support.0), batch);
    assert_eq!(features.view_requests, element_flag(attributes, "SupportViewRequests"));
    assert_eq!(features.omm_post, element_flag(attributes, "SupportOMMPost"));
    assert_eq!(features.optimized_pause_resume, element_flag(attributes, "SupportOptimizedPauseResume"));
}

#[test]
fn a_login_refusal_is_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("STATUS", |domain| domain == 1) {
        let Ok(LoginMsg::Status(status)) = LoginMsg::parse(&parse(&bytes)) else { panic!("{name}") };
        assert_state(status.state.expect("a state"), &decoded["state"]);
        assert_eq!(status.name, Some(text(&decoded["key"]["name"]).as_bytes()));
        assert_eq!(status.name_type, Some(NameType::USER_NAME));
        assert_same_content(&name, &bytes, &status.to_vec().expect("legal"));
    }
}

#[test]
fn a_logout_is_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("CLOSE", |domain| domain == 1) {
        let Ok(LoginMsg::Close(close)) = LoginMsg::parse(&parse(&bytes)) else { panic!("{name}") };
        assert_eq!(i64::from(close.stream_id), number(&decoded["stream_id"]));
        let logout = tickcast_rdm::login::logout(close.stream_id);
        assert_same_content(&name, &bytes, &logout.to_vec().expect("legal"));
    }
}

#[test]
fn directory_requests_are_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("REQUEST", |domain| domain == 4) {
        let Ok(DirectoryMsg::Request(request)) = DirectoryMsg::parse(&parse(&bytes)) else {
            panic!("{name}")
        };
        assert_eq!(i64::from(request.stream_id), number(&decoded["stream_id"]));
        assert_eq!(i64::from(request.filter.0), number(&decoded["key"]["filter"]));
        assert_eq!(request.service_id.map(i64::from), decoded["key"]["service_id"].as_i64());
        assert!(request.streaming);
        assert_same_content(&name, &bytes, &request.to_vec().expect("legal"));
    }
}

#[test]
fn directory_refreshes_are_read_applied_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("REFRESH", |domain| domain == 4) {
        let Ok(DirectoryMsg::Refresh(refresh)) = DirectoryMsg::parse(&parse(&bytes)) else {
            panic!("{name}")
        };
        assert_state(refresh.state, &decoded["state"]);
        assert_eq!(refresh.solicited, has_flag(&decoded, "SOLICITED"));
        assert!(refresh.complete && refresh.clear_cache);
        assert_eq!(refresh.filter.map(|filter| i64::from(filter.0)), decoded["key"]["filter"].as_i64());
        assert_same_content(&name, &bytes, &refresh.to_vec().expect("legal"));

        let mut directory = Directory::default();
        directory.apply_refresh(&refresh).expect("legal");
        let described = list(&decoded["payload"]["entries"]);
        assert_eq!(directory.service_count(), described.len());
        for entry in described {
            let id = u16::try_from(number(&entry["key"]["value"])).expect("a service id");
            assert_service(directory.service(id).expect("it was described"), entry);
        }
        // The directory says again what was said.
        let services = directory.services();
        let again = DirectoryRefresh::publish(refresh.stream_id, refresh.filter.expect("one"), services);
        let again =
            DirectoryRefresh { state: refresh.state, solicited: refresh.solicited, ..again.expect("unique") };
        assert_same_content(&name, &bytes, &again.to_vec().expect("legal"));
    }
}

fn assert_service(service: &Service, entry: &Json) {
    let filters = list(&entry["value"]["entries"]);
    let aspect = |id: i64| &filters.iter().find(|filter| filter["id"] == id).expect("recorded")["value"];
    assert_eq!(filters.len(), 2, "info and state were recorded");
    let (info, described) = (&service.info, aspect(1));
    let texts = |name| match element(described, name) {
        Some(value) => list(&value["items"]).iter().map(|item| text(&item["value"]["text"])).collect(),
        None => vec![],
    };
    let owned = |name| element(described, name).map(|value| text(&value["text"]).to_owned());
    assert_eq!(Some(&info.name), owned("Name").as_ref());
    assert_eq!(info.vendor, owned("Vendor"));
    assert_eq!(info.item_list, owned("ItemList"));
    assert_eq!(Some(info.is_source), element_flag(described, "IsSource"));
    let capabilities = list(&element(described, "Capabilities").expect("required")["items"]).iter();
    let capabilities: Vec<_> = capabilities.map(|item| Domain(number(&item["value"]) as u8)).collect();
    assert_eq!(info.capabilities, capabilities);
    assert_eq!(info.dictionaries_provided, texts("DictionariesProvided"));
    assert_eq!(info.dictionaries_used, texts("DictionariesUsed"));
    let qualities = list(&element(described, "QoS").expect("recorded")["items"]);
    assert_eq!(info.qos.len(), qualities.len());
    info.qos.iter().zip(qualities).for_each(|(qos, item)| assert_real_time(Some(*qos), &item["value"]));
    assert_eq!(Some(info.supports_qos_range), element_flag(described, "SupportsQoSRange"));
    let snapshots = element_flag(described, "SupportsOutOfBandSnapshots");
    assert_eq!(Some(info.supports_out_of_band_snapshots), snapshots);
    assert_eq!(Some(info.accepting_consumer_status), element_flag(described, "AcceptingConsumerStatus"));
    assert_eq!(list(&described["entries"]).len(), 11, "each was checked");
    let state = aspect(2);
    assert_only(state, &["ServiceState", "AcceptingRequests"]);
    assert_eq!(Some(service.state.up), element_flag(state, "ServiceState"));
    assert_eq!(service.state.accepting_requests, element_flag(state, "AcceptingRequests"));
}

#[test]
fn dictionary_requests_are_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("REQUEST", |domain| domain == 5) {
        let Ok(DictionaryMsg::Request(request)) = DictionaryMsg::parse(&parse(&bytes)) else {
            panic!("{name}")
        };
        let key = &decoded["key"];
        assert_eq!(i64::from(request.stream_id), number(&decoded["stream_id"]));
        assert_eq!(request.service_id.map(i64::from), key["service_id"].as_i64());
        assert_eq!(request.name, text(&key["name"]).as_bytes());
        assert!(request.kind().is_ok());
        assert_eq!((request.verbosity, number(&key["filter"])), (Verbosity::Normal, 7));
        assert_eq!(request.priority, Some(Priority { class: 1, count: 1 }));
        assert_same_content(&name, &bytes, &request.to_vec().expect("legal"));
    }
}

#[test]
fn dictionary_refreshes_are_downloaded_and_served_as_recorded() {
    let mut download = tickcast_rdm::dictionary::DictionaryDownload::default();
    let cases = recorded("REFRESH", |domain| domain == 5);
    for Case { bytes, decoded, .. } in &cases {
        let Msg::Refresh(refresh) = parse(bytes) else { panic!("a refresh") };
        let key = &decoded["key"];
        let kind = tickcast_rdm::dictionary::kind_of(text(&key["name"]).as_bytes()).expect("known");
        download.request(kind, refresh.stream_id, 1);
        download.take(&refresh).expect("legal");
    }
    let dictionary = download.dictionary().expect("they agree").expect("complete");
    for Case { name, bytes, decoded } in &cases {
        let Msg::Refresh(recorded) = parse(bytes) else { panic!("a refresh") };
        let kind = download.kind(recorded.stream_id).expect("asked for");
        let request = tickcast_rdm::dictionary::DictionaryRequest::new(recorded.stream_id, 1, kind);
        let parts = DictionaryParts::new(&request, &dictionary, PartSizes::default()).expect("known");
        let parts: Vec<_> = parts.collect::<Result<_, _>>().expect("legal");
        assert_eq!(parts.len(), 1, "{name}");
        let Msg::Refresh(served) = parse(&parts[0]) else { panic!("a refresh") };
        // The words of the state are free.
        let served = rwf::RefreshMsg { state: recorded.state, ..served };
        assert_same_content(name, bytes, &served.to_vec().expect("legal"));
        assert_eq!(served.clear_cache, has_flag(decoded, "CLEAR_CACHE"));
    }
}

#[test]
fn item_requests_are_read_and_written_as_recorded() {
    for Case { name, bytes, decoded } in recorded("REQUEST", is_item) {
        assert_item_request(&name, &bytes, &decoded);
    }
}

#[test]
fn batches_views_and_symbol_lists_made_with_the_libraries_are_read_and_written_alike() {
    let special = ["request/batch", "request/view", "request/symbollist", "request/pause"];
    let is_special = |case: &Case| special.iter().any(|start| case.name.starts_with(start));
    let cases: Vec<_> = made_messages().into_iter().filter(is_special).collect();
    assert_eq!(cases.len(), 6);
    for Case { name, bytes, decoded } in cases {
        assert_item_request(&name, &bytes, &decoded);
        // These were made with the shortest lengths, so that they are the same to the byte.
        let Msg::Request(msg) = parse(&bytes) else { panic!("{name}") };
        let again = ItemRequest::parse(&msg).expect("legal").to_vec();
        assert_eq!(again, Ok(bytes), "{name}");
    }
}

fn assert_item_request(name: &str, bytes: &[u8], decoded: &Json) {
    let Msg::Request(msg) = parse(bytes) else { panic!("{name}") };
    let request = ItemRequest::parse(&msg).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(i64::from(request.domain.0), number(&decoded["domain"]));
    assert_eq!(i64::from(request.stream_id), number(&decoded["stream_id"]));
    for (flag, value) in [
        ("STREAMING", request.streaming),
        ("PRIVATE_STREAM", request.private_stream),
        ("MSG_KEY_IN_UPDATES", request.key_in_updates),
        ("CONF_INFO_IN_UPDATES", request.conflation_info_in_updates),
        ("NO_REFRESH", request.no_refresh),
        ("PAUSE", request.pause),
        ("HAS_VIEW", request.view.is_some()),
        ("HAS_BATCH", !matches!(request.target, Target::Item(_))),
    ] {
        assert_eq!(value, has_flag(decoded, flag), "{name}: {flag}");
    }
    let priority = request.priority.map(|p| (i64::from(p.class), i64::from(p.count)));
    let stated = decoded.get("priority").map(|p| (number(&p["class"]), number(&p["count"])));
    assert_eq!(priority, stated, "{name}");
    assert_real_time(request.qos, &decoded["qos"]);
    assert_real_time(request.worst_qos, &decoded["worst_qos"]);
    assert_target(&request.target, decoded);
    assert_view(request.view.as_ref(), &decoded["payload"]);
    let behaviors = element(&decoded["payload"], ":SymbolListBehaviors");
    let wanted = behaviors.and_then(|list| element_number(list, ":DataStreams")).map(DataStreams);
    assert_eq!(request.data_streams, wanted, "{name}");
    let again = request.to_vec().expect("legal");
    assert_same_content(name, bytes, &again);
}

fn assert_target(target: &Target<'_>, decoded: &Json) {
    let items = |name| element(&decoded["payload"], name).map(|value| list(&value["items"]));
    match target {
        Target::Item(key) => {
            assert_item(Some(*key), &decoded["key"]);
            assert_eq!((items(":ItemList"), items(":StreamIdList")), (None, None));
        }
        Target::Items { common, names } => {
            assert_eq!(i64::from(common.service_id), number(&decoded["key"]["service_id"]));
            let stated = items(":ItemList").expect("a list").iter();
            let stated: Vec<_> = stated.map(|item| text(&item["value"]["text"]).as_bytes()).collect();
            assert_eq!(*names, stated);
        }
        Target::Streams(ids) => {
            let stated = items(":StreamIdList").expect("a list").iter();
            let stated: Vec<_> = stated.map(|item| number(&item["value"]) as i32).collect();
            assert_eq!(*ids, stated);
        }
    }
}

fn assert_view(view: Option<&View<'_>>, payload: &Json) {
    let data = element(payload, ":ViewData").map(|value| list(&value["items"]));
    match (view, data) {
        (Some(View::Fields(ids)), Some(items)) => {
            assert_eq!(element_number(payload, ":ViewType"), Some(1));
            let stated: Vec<_> = items.iter().map(|item| number(&item["value"]) as i16).collect();
            assert_eq!(**ids, *stated);
        }
        (None, None) => {}
        other => panic!("only views of fields were recorded: {other:?}"),
    }
}

#[test]
fn closes_of_items_are_read_and_written_as_recorded() {
    let batch = made_messages().into_iter().filter(|case| case.name == "close/batch");
    for Case { name, bytes, decoded } in recorded("CLOSE", is_item).into_iter().chain(batch) {
        let Msg::Close(msg) = parse(&bytes) else { panic!("{name}") };
        let close = ItemClose::parse(&msg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(i64::from(close.stream_id), number(&decoded["stream_id"]));
        assert_eq!(close.ack, has_flag(&decoded, "ACK"));
        let ids = element(&decoded["payload"], ":StreamIdList").map(|value| list(&value["items"]));
        match (&close.target, ids) {
            (CloseTarget::Stream, None) => {}
            (CloseTarget::Streams(found), Some(stated)) => {
                let stated: Vec<_> = stated.iter().map(|item| number(&item["value"]) as i32).collect();
                assert_eq!(*found, stated);
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_same_content(&name, &bytes, &close.to_vec().expect("legal"));
    }
}

#[test]
fn posts_are_read_and_answered_as_recorded() {
    let answers = recorded("ACK", is_item);
    for Case { name, bytes, decoded } in recorded("POST", is_item) {
        let Msg::Post(msg) = parse(&bytes) else { panic!("{name}") };
        let post = Post::parse(&msg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_item(post.item, &decoded["key"]);
        assert!(post.is_whole());
        let off_stream = name.starts_with("post_generic/02");
        let item = post.item.expect("stock consumers name it");
        let stream_id = msg.stream_id;
        let target =
            if off_stream { PostTarget::OffStream(item) } else { PostTarget::OnStream { stream_id } };
        assert_eq!(post.target(1), Ok(target));
        let Some(Msg::Update(update)) = post.message else { panic!("{name}: an update was posted") };
        assert_eq!(update.key.and_then(|key| key.name), Some(item.name));
        assert_same_content(&name, &bytes, &post.msg.to_vec().expect("legal"));
        assert_answered(&name, &msg, &answers);
    }
}

/// The answer we would give is the one that was recorded.
fn assert_answered(name: &str, post: &rwf::PostMsg<'_>, answers: &[Case]) {
    let session = name.split('/').next();
    let is_answer = |case: &&Case| {
        case.name.split('/').next() == session
            && number(&case.decoded["ack_id"]) == i64::from(post.post_id.expect("it wants an ack"))
    };
    let answer = answers.iter().find(is_answer).unwrap_or_else(|| panic!("{name}: no answer recorded"));
    let Msg::Ack(recorded) = parse(&answer.bytes) else { panic!("{}", answer.name) };
    let ours = match Acknowledged::of(&recorded) {
        Acknowledged::Taken => ack(post),
        Acknowledged::Refused { code, text } => nak(post, code, std::str::from_utf8(text).expect("recorded")),
    };
    assert_same_content(&answer.name, &answer.bytes, &ours.expect("wanted").to_vec().expect("legal"));
    assert_eq!(matches!(Acknowledged::of(&recorded), Acknowledged::Taken), session != Some("nack"));
}

#[test]
fn what_a_non_interactive_provider_sends_about_items_is_read_and_written_as_recorded() {
    let from_provider =
        |case: &Case| case.name.starts_with("ni") && is_item(number(&case.decoded["domain"]) as u64);
    let cases: Vec<_> = sdk_messages().into_iter().filter(from_provider).collect();
    assert_eq!(cases.len(), 14);
    for Case { name, bytes, decoded } in cases {
        let publication =
            Publication::parse(&parse(&bytes)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_item(publication.item, &decoded["key"]);
        assert_eq!(i64::from(publication.stream_id), number(&decoded["stream_id"]));
        assert_eq!(publication.ends_item(), decoded["state"]["stream"] == 4);
        let item = PublishedItem {
            key_in_updates: true,
            ..PublishedItem::new(publication.domain, publication.stream_id, publication.item.expect("named"))
        };
        let again = match publication.msg {
            Published::Image(m) => {
                let image = item.image(m.qos.expect("recorded"), m.container_type, m.payload);
                rwf::RefreshMsg { state: m.state, ..image }.to_vec()
            }
            Published::Update(m) => item.update(m.update_type, m.container_type, m.payload).to_vec(),
            Published::Status(m) => item.status(m.state.expect("recorded")).to_vec(),
        };
        assert_same_content(&name, &bytes, &again.expect("legal"));
    }
}

#[test]
fn what_an_interactive_provider_answers_is_what_we_would_answer() {
    let mut answered = 0;
    let cases: Vec<_> = sdk_messages();
    for Case { name, bytes, decoded } in &cases {
        let from_provider = !name.starts_with("ni") && is_item(number(&decoded["domain"]) as u64);
        let msg = parse(bytes);
        let (true, Some(key)) = (from_provider, msg.key()) else { continue };
        let request = RequestMsg {
            private_stream: name.starts_with("private/"),
            key,
            ..RequestMsg::new(msg.domain(), msg.stream_id(), rwf::DataType::NO_DATA)
        };
        let reply = tickcast_rdm::Reply::to(&Msg::Request(request));
        let ours = match msg {
            Msg::Refresh(m) => {
                let image = reply.image(m.qos.expect("recorded"), m.container_type, m.payload);
                rwf::RefreshMsg { state: m.state, seq_num: m.seq_num, ..image }.to_vec()
            }
            Msg::Status(m) => reply.status(m.state.expect("recorded")).to_vec(),
            _ => continue,
        };
        assert_same_content(name, bytes, &ours.expect("legal"));
        answered += 1;
    }
    assert_eq!(answered, 14, "images and statuses of the recorded sessions");
}

#[test]
fn a_recorded_symbol_list_names_its_items() {
    for Case { name, bytes, decoded } in recorded("REFRESH", |domain| domain == 10) {
        let msg = parse(&bytes);
        let symbols = symbols(msg.container_type(), msg.payload()).expect("a symbol list");
        let symbols: Vec<_> = symbols.collect::<Result<_, _>>().expect("legal");
        let stated = list(&decoded["payload"]["entries"]);
        assert_eq!(symbols.len(), stated.len(), "{name}");
        for (symbol, entry) in symbols.iter().zip(stated) {
            assert_eq!(symbol.action as i64, number(&entry["action"]));
            assert_eq!(symbol.name, text(&entry["key"]["value"]["text"]).as_bytes());
            assert!(symbol.data.is_some());
        }
    }
}
