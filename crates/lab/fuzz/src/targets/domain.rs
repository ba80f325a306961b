use rdm::dictionary::{DictionaryDownload, DictionaryKind, DictionaryMsg};
use rdm::directory::{Directory, DirectoryLimits, DirectoryMsg};
use rdm::item::{ItemClose, ItemRequest};
use rdm::login::LoginMsg;
use rdm::post::{Post, ack};
use rdm::publish::Publication;
use rdm::{RdmError, Reply, ToVec};
use rwf::{Domain, Msg};

use crate::Outcome;
use crate::input::Input;

const LIMITS: DirectoryLimits = DirectoryLimits { service_count_max: 8, service_bytes_max: 4096 };

/// Input: messages behind `u16` lengths, one after the other to the same ends.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut directory = Directory::new(LIMITS);
    let mut last = Err(RdmError::NotAnItemDomain { domain: Domain(0) });
    let mut accepted = 0u32;
    while !input.is_empty() {
        last = take(input.chunk(), &mut directory);
        accepted += u32::from(last.is_ok());
    }
    match last {
        Ok(kind) => Outcome::accepted((accepted, kind)),
        Err(error) => Outcome::refused((accepted, error)),
    }
}

/// One message, at whichever end it belongs to.
fn take(message: &[u8], directory: &mut Directory) -> Result<&'static str, RdmError> {
    let msg = Msg::parse(message)?;
    let before = directory.clone();
    let taken = take_domain(&msg, directory);
    if let Err(error) = &taken {
        let answer = Reply::to(&msg).refuse(error).expect("whatever is wrong can be answered");
        assert!(Msg::parse(&answer).is_ok());
        assert!(before.services().eq(directory.services()), "half a message took effect");
    }
    assert!(directory.service_count() <= LIMITS.service_count_max as usize);
    taken
}

fn take_domain(msg: &Msg<'_>, directory: &mut Directory) -> Result<&'static str, RdmError> {
    match msg.domain() {
        Domain::LOGIN => take_login(msg),
        Domain::SOURCE => take_directory(msg, directory),
        Domain::DICTIONARY => take_dictionary(msg),
        _ => take_item(msg),
    }
}

fn take_login(msg: &Msg<'_>) -> Result<&'static str, RdmError> {
    Ok(match LoginMsg::parse(msg)? {
        LoginMsg::Request(request) => {
            if let Ok(bytes) = request.to_vec() {
                let again = Msg::parse(&bytes).expect("it was just made");
                assert_eq!(LoginMsg::parse(&again), Ok(LoginMsg::Request(request)));
            }
            "login request"
        }
        LoginMsg::RoundTrip(round_trip) => {
            let bytes = round_trip.to_vec().expect("three numbers fit");
            let again = Msg::parse(&bytes).expect("it was just made");
            assert_eq!(LoginMsg::parse(&again), Ok(LoginMsg::RoundTrip(round_trip)));
            "round trip"
        }
        LoginMsg::Refresh(_) => "login refresh",
        LoginMsg::Status(_) => "login status",
        LoginMsg::Close(_) => "logout",
        LoginMsg::Generic(_) => "generic",
    })
}

fn take_directory(msg: &Msg<'_>, directory: &mut Directory) -> Result<&'static str, RdmError> {
    match DirectoryMsg::parse(msg)? {
        DirectoryMsg::Refresh(refresh) => directory.apply_refresh(&refresh).map(|_| "directory refresh"),
        DirectoryMsg::Update(update) => directory.apply_update(&update).map(|_| "directory update"),
        _ => Ok("directory"),
    }
}

fn take_dictionary(msg: &Msg<'_>) -> Result<&'static str, RdmError> {
    let DictionaryMsg::Refresh(refresh) = DictionaryMsg::parse(msg)? else { return Ok("dictionary") };
    let enums = refresh.key.is_some_and(|key| key.name == Some(b"RWFEnum"));
    let kind = if enums { DictionaryKind::Enums } else { DictionaryKind::Fields };
    let mut download = DictionaryDownload::default();
    download.request(kind, refresh.stream_id, 1);
    download.take(&refresh).map(|_| "dictionary refresh")
}

fn take_item(msg: &Msg<'_>) -> Result<&'static str, RdmError> {
    match msg {
        Msg::Request(request) => {
            let request = ItemRequest::parse(request)?;
            let singles = request.singles().count();
            assert!(singles <= msg.payload().len() + 1, "{singles} items in {} bytes", msg.payload().len());
            Ok("item request")
        }
        Msg::Close(close) => ItemClose::parse(close).map(|_| "close"),
        Msg::Post(post) => {
            let acknowledged = ack(post).map(|ack| ack.to_vec().expect("an ack fits"));
            assert!(acknowledged.is_none() || post.ack);
            Post::parse(post).map(|_| "post")
        }
        Msg::Ack(_) | Msg::Generic(_) => Ok("passed on"),
        _ => Publication::parse(msg).map(|_| "publication"),
    }
}
