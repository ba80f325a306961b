//! The targets, by crate.

mod authentication;
mod backbone;
mod certificate;
mod conflation;
mod container;
mod counters;
mod dictionary;
mod domain;
mod encryption;
mod failover;
mod image;
mod json;
mod lbt;
mod lbt_session;
mod message;
mod observation;
mod p2ps;
mod presence;
mod recovery;
mod relay;
mod rssl_frames;
mod rssl_handshake;
mod rssl_session;
mod shared_memory;
mod signed_resolution;
mod updates;
mod value;
mod websocket;
mod xdp_frame;

use std::sync::LazyLock;

use rwf::DataType;
use rwf::dictionary::{Dictionary, Field, FieldType};

use crate::Target;

/// A [`Target`] whose seeds are in the file of its name.
macro_rules! target {
    ($name:literal, $longest_bytes:expr, $execute:expr, $about:literal) => {
        Target {
            name: $name,
            about: $about,
            longest_bytes: $longest_bytes,
            seeds: include_str!(concat!("../../seeds/", $name, ".txt")),
            execute: $execute,
        }
    };
}

/// All targets.
pub static TARGETS: &[Target] = &[
    target!(
        "rssl_handshake",
        600,
        rssl_handshake::execute,
        "a connection's first bytes, at either end: whole or in pieces they come to the same"
    ),
    target!(
        "rssl_frames",
        8192,
        rssl_frames::execute,
        "frames to a server past its handshake: whole or in pieces the same messages and the same end, \
         memory within its bound"
    ),
    target!(
        "rssl_session",
        1024,
        rssl_session::execute,
        "operations on two good ends in any order: what arrives is what was sent, nobody is blamed"
    ),
    target!(
        "rwf_message",
        2048,
        message::execute,
        "a message: what parses encodes to one that parses the same, and walks and prints to its end"
    ),
    target!(
        "rwf_field_list",
        2048,
        |input| container::execute(DataType::FIELD_LIST, input),
        "a field list: read entry by entry and written again it reads the same"
    ),
    target!(
        "rwf_element_list",
        2048,
        |input| container::execute(DataType::ELEMENT_LIST, input),
        "an element list: likewise"
    ),
    target!(
        "rwf_filter_list",
        2048,
        |input| container::execute(DataType::FILTER_LIST, input),
        "a filter list: likewise"
    ),
    target!("rwf_map", 2048, |input| container::execute(DataType::MAP, input), "a map: likewise"),
    target!("rwf_series", 2048, |input| container::execute(DataType::SERIES, input), "a series: likewise"),
    target!("rwf_vector", 2048, |input| container::execute(DataType::VECTOR, input), "a vector: likewise"),
    target!(
        "rwf_value",
        512,
        value::execute,
        "a value of any type: what decodes encodes to one that decodes the same"
    ),
    target!(
        "rdm_message",
        4096,
        domain::execute,
        "messages to both ends of login, directory, dictionary and items: what is wrong can be answered, \
         a directory message takes effect whole or not at all"
    ),
    target!(
        "dictionary_file",
        4096,
        dictionary::file,
        "field and enumeration files: what loads can be served, downloaded and is the same again"
    ),
    target!(
        "dictionary_download",
        8192,
        dictionary::download,
        "parts of a dictionary over the wire: what is taken can be served again"
    ),
    target!(
        "rwf_to_json",
        2048,
        json::write,
        "a message: what becomes of it is one JSON object, or nothing, never more text than is allowed"
    ),
    target!(
        "json_to_rwf",
        2048,
        json::read,
        "the text of a WebSocket frame: what becomes of it is legal and JSON again, what does not is answered"
    ),
    target!(
        "p2ps_client",
        4096,
        p2ps::execute,
        "messages of a client to the point-to-point server: each answer is legal, no other client notices"
    ),
    target!(
        "websocket_upgrade",
        2048,
        websocket::upgrade,
        "what a client sends first: whole or in pieces it comes to the same, memory within its bound"
    ),
    target!("websocket_answer", 2048, websocket::answer, "what a server answers to our upgrade: likewise"),
    target!(
        "websocket_frames",
        4096,
        websocket::frames,
        "frames of a client, compressed or not: whole or in pieces the same messages and the same end"
    ),
    target!(
        "image",
        4096,
        image::execute,
        "refreshes and updates of an item: the image written and read again is the same image"
    ),
    target!(
        "conflation",
        2048,
        conflation::execute,
        "updates of an item that readers were not sent: one update brings them to the image, or they need it"
    ),
    target!(
        "backbone",
        1024,
        backbone::execute,
        "messages between source distributor and P2PS: what parses encodes to one that parses the same"
    ),
    target!(
        "recovery_session",
        1024,
        recovery::execute,
        "late join and off-transport recovery, and peers gone mad: what is delivered and lost has no hole and \
         no overlap, waiting ends"
    ),
    target!(
        "failover_stream",
        512,
        failover::execute,
        "sources of one stream that skip, lose and die: numbers ascend, each comes once"
    ),
    target!(
        "resolver_relay",
        1024,
        relay::execute,
        "datagrams to a unicast resolver: only what parses goes on, to clients alone and never back"
    ),
    target!(
        "lbt_packets",
        2048,
        lbt::execute,
        "datagrams of the reliable transports and of topic resolution: every view of them ends"
    ),
    target!(
        "presence",
        512,
        presence::execute,
        "trailers with queries for receivers and their answers: what is read is written the same, and nobody counts who \
         was not asked"
    ),
    target!(
        "lbt_rm_session",
        1024,
        lbt_session::execute::<lbt_session::Multicast>,
        "operations on both ends of a multicast session and on the wire between them: each number of a topic \
         is delivered or lost once and in order, memory within its bound, both ends come to rest"
    ),
    target!(
        "lbt_ru_session",
        1024,
        lbt_session::execute::<lbt_session::Unicast>,
        "operations on both ends of a unicast session: likewise"
    ),
    target!(
        "lbt_authentication",
        1024,
        authentication::execute,
        "datagrams to both ends of a session with keyed codes: what is not signed as it must be has no effect"
    ),
    target!(
        "lbt_encryption",
        1024,
        encryption::execute,
        "datagrams to a receiver of an encrypted session, and to one without keys: what is not encrypted with the key \
         delivers nothing to the one, what is delivers nothing to the other"
    ),
    target!(
        "signed_resolution",
        1024,
        signed_resolution::execute,
        "datagrams of topic resolution to a context with keys: what is not signed as it must be has no effect"
    ),
    target!(
        "shared_memory",
        1024,
        shared_memory::execute,
        "what other processes write into a region of shared memory: its readers stay within it, each look ends"
    ),
    target!(
        "counters_snapshot",
        4096,
        counters::execute,
        "the counters of another process: what is read fits together and was there"
    ),
    target!(
        "observation_file",
        4096,
        observation::execute,
        "a file of observations: what is read is as long as its head says, and written again it is the same"
    ),
    target!(
        "xdp_frame",
        1600,
        xdp_frame::execute,
        "a frame from the wire: what is read lies within it, and written again it reads the same"
    ),
    target!(
        "certificate_dates",
        2048,
        certificate::execute,
        "the dates of a certificate: what is read prints as a date, a part of a certificate has none"
    ),
];

/// The target of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// A dictionary with fields of every type, containers among them.
static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
    let mut dictionary = Dictionary::new();
    let fields = include_bytes!("../../../../wire/rwf/tests/vectors/fields.dic");
    dictionary.load_fields(fields).expect("part of the project");
    for (id, data_type) in [
        (-15, DataType::QOS),
        (-16, DataType::STATE),
        (-17, DataType::FIELD_LIST),
        (-18, DataType::ELEMENT_LIST),
        (-19, DataType::MAP),
        (-20, DataType::OPAQUE),
        (-21, DataType::SERIES),
        (-22, DataType::VECTOR),
        (-23, DataType::FILTER_LIST),
    ] {
        dictionary.add_field(field(id, data_type)).expect("an id that is free");
    }
    dictionary
});

fn field(id: i16, data_type: DataType) -> Field {
    Field {
        id,
        name: format!("F{id}").into(),
        dde_acronym: Box::default(),
        ripples_to: None,
        field_type: FieldType::NONE,
        length: 0,
        enum_length: 0,
        data_type,
        rwf_length: 0,
    }
}
