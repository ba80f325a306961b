//! Messages of every class.

use serde_json::Value as Json;
use tickcast_rwf::{
    AckMsg, Attributes, CloseMsg, Conflation, DataType, Domain, GenericMsg, Key, Msg, NakCode, PostMsg,
    PostUserInfo, Priority, RefreshMsg, RequestMsg, StatusMsg, UpdateMsg, UpdateType, Writer, encode_to_vec,
};

use super::{
    Sets, has_flag, leak, leaked_hex, leaked_text, maybe_container, maybe_number, number, qos, state, text,
    type_named,
};

pub(super) fn message(json: &Json, w: &mut Writer<'_>) {
    message_of(json).encode_header(w);
    maybe_container(&json["payload"], Sets::default(), w);
}

fn encoded(json: &Json) -> &'static [u8] {
    leak(encode_to_vec(|w| maybe_container(json, Sets::default(), w)).expect("a container of the vectors"))
}

fn key(json: &Json) -> Option<Key<'static>> {
    json.is_object().then(|| Key {
        service_id: maybe_number(&json["service_id"]),
        name: leaked_text(&json["name"]),
        name_type: maybe_number(&json["name_type"]),
        filter: maybe_number(&json["filter"]),
        identifier: maybe_number(&json["identifier"]),
        attributes: has_flag(json, "HAS_ATTRIB").then(|| Attributes {
            container_type: type_named(&json["attrib_type"]),
            data: encoded(&json["attrib"]),
        }),
    })
}

fn user(json: &Json) -> Option<PostUserInfo> {
    json.is_object()
        .then(|| PostUserInfo { address: number(&json["user_addr"]), user_id: number(&json["user_id"]) })
}

fn maybe<T>(json: &Json, read: impl FnOnce(&Json) -> T) -> Option<T> {
    json.is_object().then(|| read(json))
}

fn message_of(json: &Json) -> Msg<'static> {
    match text(&json["msg_class"]) {
        "REQUEST" => Msg::Request(request(json)),
        "REFRESH" => Msg::Refresh(refresh(json)),
        "STATUS" => Msg::Status(status(json)),
        "UPDATE" => Msg::Update(update(json)),
        "CLOSE" => Msg::Close(close(json)),
        "ACK" => Msg::Ack(ack(json)),
        "GENERIC" => Msg::Generic(generic(json)),
        "POST" => Msg::Post(post(json)),
        other => panic!("no message class {other}"),
    }
}

/// Domain, stream id and container type: what every message has.
fn head(json: &Json) -> (Domain, i32, DataType) {
    (Domain(number(&json["domain"])), number(&json["stream_id"]), type_named(&json["container_type"]))
}

fn extended_header(json: &Json) -> Option<&'static [u8]> {
    leaked_hex(&json["extended_header"])
}

fn permission_data(json: &Json) -> Option<&'static [u8]> {
    leaked_hex(&json["perm_data"])
}

fn request(json: &Json) -> RequestMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    let has = |flag| has_flag(json, flag);
    RequestMsg {
        streaming: has("STREAMING"),
        key_in_updates: has("MSG_KEY_IN_UPDATES"),
        conflation_info_in_updates: has("CONF_INFO_IN_UPDATES"),
        no_refresh: has("NO_REFRESH"),
        private_stream: has("PRIVATE_STREAM"),
        pause: has("PAUSE"),
        view: has("HAS_VIEW"),
        batch: has("HAS_BATCH"),
        qualified_stream: has("QUALIFIED_STREAM"),
        priority: maybe(&json["priority"], |priority| Priority {
            class: number(&priority["class"]),
            count: number(&priority["count"]),
        }),
        qos: maybe(&json["qos"], qos),
        worst_qos: maybe(&json["worst_qos"], qos),
        key: key(&json["key"]).expect("a request has a key"),
        extended_header: extended_header(json),
        ..RequestMsg::new(domain, stream_id, container_type)
    }
}

fn refresh(json: &Json) -> RefreshMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    let has = |flag| has_flag(json, flag);
    RefreshMsg {
        solicited: has("SOLICITED"),
        complete: has("REFRESH_COMPLETE"),
        clear_cache: has("CLEAR_CACHE"),
        do_not_cache: has("DO_NOT_CACHE"),
        private_stream: has("PRIVATE_STREAM"),
        qualified_stream: has("QUALIFIED_STREAM"),
        state: state(&json["state"]),
        group_id: leaked_hex(&json["group_id"]).expect("a refresh has a group id"),
        qos: maybe(&json["qos"], qos),
        seq_num: maybe_number(&json["seq_num"]),
        permission_data: permission_data(json),
        key: key(&json["key"]),
        extended_header: extended_header(json),
        post_user_info: user(&json["post_user_info"]),
        part_num: maybe_number(&json["part_num"]),
        request_key: key(&json["req_key"]),
        ..RefreshMsg::new(domain, stream_id, container_type)
    }
}

fn status(json: &Json) -> StatusMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    let has = |flag| has_flag(json, flag);
    StatusMsg {
        clear_cache: has("CLEAR_CACHE"),
        private_stream: has("PRIVATE_STREAM"),
        qualified_stream: has("QUALIFIED_STREAM"),
        state: maybe(&json["state"], state),
        group_id: leaked_hex(&json["group_id"]),
        permission_data: permission_data(json),
        key: key(&json["key"]),
        extended_header: extended_header(json),
        post_user_info: user(&json["post_user_info"]),
        request_key: key(&json["req_key"]),
        ..StatusMsg::new(domain, stream_id, container_type)
    }
}

fn update(json: &Json) -> UpdateMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    let has = |flag| has_flag(json, flag);
    UpdateMsg {
        update_type: UpdateType(number(&json["update_type"])),
        do_not_cache: has("DO_NOT_CACHE"),
        do_not_conflate: has("DO_NOT_CONFLATE"),
        do_not_ripple: has("DO_NOT_RIPPLE"),
        discardable: has("DISCARDABLE"),
        conflation: maybe_number(&json["conflation_count"])
            .map(|count| Conflation { count, time: number(&json["conflation_time"]) }),
        seq_num: maybe_number(&json["seq_num"]),
        permission_data: permission_data(json),
        key: key(&json["key"]),
        extended_header: extended_header(json),
        post_user_info: user(&json["post_user_info"]),
        ..UpdateMsg::new(domain, stream_id, container_type)
    }
}

fn close(json: &Json) -> CloseMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    CloseMsg {
        ack: has_flag(json, "ACK"),
        batch: has_flag(json, "HAS_BATCH"),
        extended_header: extended_header(json),
        ..CloseMsg::new(domain, stream_id, container_type)
    }
}

fn ack(json: &Json) -> AckMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    AckMsg {
        private_stream: has_flag(json, "PRIVATE_STREAM"),
        qualified_stream: has_flag(json, "QUALIFIED_STREAM"),
        ack_id: number(&json["ack_id"]),
        nak_code: maybe_number(&json["nak_code"]).map(NakCode),
        text: leaked_text(&json["text"]),
        seq_num: maybe_number(&json["seq_num"]),
        key: key(&json["key"]),
        extended_header: extended_header(json),
        ..AckMsg::new(domain, stream_id, container_type)
    }
}

fn generic(json: &Json) -> GenericMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    GenericMsg {
        complete: has_flag(json, "MESSAGE_COMPLETE"),
        provider_driven: has_flag(json, "PROVIDER_DRIVEN"),
        secondary_seq_num: maybe_number(&json["secondary_seq_num"]),
        seq_num: maybe_number(&json["seq_num"]),
        permission_data: permission_data(json),
        key: key(&json["key"]),
        extended_header: extended_header(json),
        part_num: maybe_number(&json["part_num"]),
        request_key: key(&json["req_key"]),
        ..GenericMsg::new(domain, stream_id, container_type)
    }
}

fn post(json: &Json) -> PostMsg<'static> {
    let (domain, stream_id, container_type) = head(json);
    PostMsg {
        complete: has_flag(json, "POST_COMPLETE"),
        ack: has_flag(json, "ACK"),
        post_user_info: user(&json["post_user_info"]).expect("a post says who posts"),
        post_id: maybe_number(&json["post_id"]),
        user_rights: maybe_number(&json["post_user_rights"]),
        seq_num: maybe_number(&json["seq_num"]),
        permission_data: permission_data(json),
        key: key(&json["key"]),
        extended_header: extended_header(json),
        part_num: maybe_number(&json["part_num"]),
        ..PostMsg::new(domain, stream_id, container_type)
    }
}
