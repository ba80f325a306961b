//! Whole recorded sessions, where they are at hand beside the project: what each side sent is understood, and
//! what stock consumers asked for is what we too would have found possible.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rwf::{Domain, Msg};
use serde_json::Value as Json;
use tickcast_rdm::dictionary::DictionaryMsg;
use tickcast_rdm::directory::{Directory, DirectoryMsg};
use tickcast_rdm::item::{ItemClose, ItemRequest, Target};
use tickcast_rdm::login::{LoginMsg, Role};
use tickcast_rdm::post::Post;
use tickcast_rdm::publish::Publication;
use tickcast_rdm::{RdmError, Reply};

use crate::support::{hex, json, list, number, parse, text};

fn sessions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/vectors/rssl");
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = files.map(|file| file.expect("readable").path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect()
}

/// The messages of a connection that stand alone in a frame, with the side that sent them.
fn messages(connection: &Json) -> Vec<(bool, Vec<u8>)> {
    let stream = |dir: &str| {
        let segments = list(&connection["segments"]).iter().filter(|segment| segment["dir"] == dir);
        segments.filter_map(|segment| segment["hex"].as_str()).flat_map(hex).collect::<Vec<u8>>()
    };
    let (to_server, to_client) = (stream("c2s"), stream("s2c"));
    let mut messages = Vec::new();
    for frame in list(&connection["frames"]).iter().filter(|frame| frame["kind"] == "data") {
        let from_client = frame["dir"] == "c2s";
        let stream = if from_client { &to_server } else { &to_client };
        let [message] = list(&frame["messages"]) else { continue };
        let end = (number(&frame["offset"]) + number(&frame["length"])) as usize;
        let start = end - number(&message["length"]) as usize;
        messages.push((from_client, stream[start..end].to_vec()));
    }
    messages
}

/// Whether it begins with a login, as sessions of the bare transport do not, and all of it can be read
/// without the compression of the connection.
fn is_whole(connection: &Json) -> bool {
    let frames = list(&connection["frames"]);
    let compressed = frames.iter().any(|frame| frame.get("compressed").is_some());
    let is_login = |(_, message): &(bool, Vec<u8>)| parse(message).domain() == Domain::LOGIN;
    !compressed && messages(connection).first().is_some_and(is_login)
}

/// What has happened on a connection so far.
#[derive(Default)]
struct Conversation {
    role: Option<Role>,
    directory: Directory,
    open: BTreeSet<i32>,
    understood: usize,
}

impl Conversation {
    fn hear(&mut self, from_client: bool, msg: &Msg<'_>) -> Result<(), RdmError> {
        match msg.domain() {
            Domain::LOGIN => {
                if let LoginMsg::Request(login) = LoginMsg::parse(msg)? {
                    assert!(from_client);
                    self.role = Some(login.role);
                }
            }
            Domain::SOURCE => {
                if let DirectoryMsg::Refresh(refresh) = DirectoryMsg::parse(msg)? {
                    assert_eq!(from_client, self.role == Some(Role::Provider));
                    self.directory.apply_refresh(&refresh)?;
                }
            }
            Domain::DICTIONARY => {
                if let DictionaryMsg::Request(request) = DictionaryMsg::parse(msg)? {
                    let name = std::str::from_utf8(request.name).expect("recorded");
                    let service = self.directory.service(request.service_id.expect("recorded"));
                    assert!(service.expect("known").serves_dictionary(name));
                }
            }
            _ => self.hear_item(from_client, msg)?,
        }
        self.understood += 1;
        Ok(())
    }

    fn hear_item(&mut self, from_client: bool, msg: &Msg<'_>) -> Result<(), RdmError> {
        match msg {
            Msg::Request(request) => self.ask(&ItemRequest::parse(request)?),
            Msg::Close(close) => {
                for stream_id in ItemClose::parse(close)?.streams() {
                    assert!(self.open.remove(&stream_id), "closed what is not open");
                }
            }
            Msg::Post(post) => {
                Post::parse(post)?;
            }
            Msg::Refresh(_) | Msg::Update(_) | Msg::Status(_) => {
                let publication = Publication::parse(msg)?;
                assert_eq!(from_client, publication.stream_id < 0, "providers' streams are negative");
                assert!(from_client || self.open.contains(&publication.stream_id));
                assert_eq!(Reply::to(msg).stream_id, publication.stream_id);
            }
            Msg::Ack(_) | Msg::Generic(_) => {}
        }
        Ok(())
    }

    /// A stock consumer asks only for what the directory lets it.
    fn ask(&mut self, request: &ItemRequest<'_>) {
        let Target::Item(key) = &request.target else { panic!("stock consumers split batches") };
        let refusal = self.directory.refuses(key.service_id, request.domain, request.qos_range());
        assert_eq!(refusal, None);
        let service = self.directory.service(key.service_id).expect("it does not refuse");
        assert!(service.load.has_window(self.open.len() as u64));
        self.open.insert(request.stream_id);
    }
}

#[test]
fn every_message_of_the_recorded_sessions_is_understood_in_its_conversation() {
    let mut understood = 0;
    let sessions = sessions();
    for path in &sessions {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        for connection in list(&json(path)["connections"]).iter().filter(|connection| is_whole(connection)) {
            let mut conversation = Conversation::default();
            for (from_client, bytes) in messages(connection) {
                let heard = conversation.hear(from_client, &parse(&bytes));
                assert_eq!(heard, Ok(()), "{name}: {}", rwf::print::Pretty(&bytes, None));
            }
            understood += conversation.understood;
        }
    }
    assert_eq!(understood > 200, !sessions.is_empty(), "{understood} messages");
}

#[test]
fn a_session_file_says_where_its_messages_are() {
    let connection = serde_json::json!({
        "segments": [
            {"dir": "c2s", "hex": "0005"},
            {"dir": "s2c", "hex": "ff"},
            {"dir": "c2s", "hex": "020708"},
        ],
        "frames": [
            {"dir": "c2s", "kind": "ping", "offset": 0, "length": 3},
            {"dir": "c2s", "kind": "data", "offset": 0, "length": 5, "messages": [{"length": 2}]},
        ],
    });
    assert_eq!(messages(&connection), [(true, vec![7, 8])]);
    assert_eq!(text(&connection["frames"][0]["kind"]), "ping");
}
