//! Who may log in, and what becomes of who may not any more.

use std::net::Ipv4Addr;

use rdm::login::LoginMsg;

use super::*;
use crate::users::{Denial, User, Users};

fn only(name: &str) -> Users {
    Users::listed([(name.to_owned(), User::default())])
}

#[test]
fn a_user_that_is_not_listed_is_refused_and_remembered() {
    let mut bench = Bench::alone();
    bench.core.admit_only(only("trader"));
    let third = ClientId(3);
    let address = Ipv4Addr::new(10, 0, 0, 5).to_bits();
    bench.core.on_client_connected(third, ClientProfile { address, ..ClientProfile::default() });
    let login = LoginRequest { position: Some(b"desk"), ..LoginRequest::consumer(b"me") };
    let refused = bench.core.on_client_message(T0, third, &login.to_vec().expect("legal"), &mut bench.log);
    assert_eq!(refused, Err(ClientError::LoginDenied(Denial::Unknown)));
    assert_eq!(bench.took(), ["3/1: status closed suspect: this user may not log in here login"]);
    assert!(!bench.core.is_logged_in(third));
    let (credentials, why) = bench.core.gate().denied().next().expect("it is remembered");
    assert_eq!(
        (credentials.user.as_str(), credentials.position.as_str(), why),
        ("me", "desk", Denial::Unknown)
    );
    assert_eq!(credentials.address, Some(Ipv4Addr::new(10, 0, 0, 5)));
    assert_eq!((bench.counters.logins_denied.get(), bench.counters.logins_revoked.get()), (1, 0));
    bench.log_in(third, &LoginRequest::consumer(b"trader"));
    assert!(bench.core.is_logged_in(third));
}

#[test]
fn the_refusal_says_not_entitled_for_good_and_names_the_user() {
    let mut bench = Bench::alone();
    bench.core.admit_only(only("trader"));
    let mut answers = super::logins::Answers::default();
    let login = LoginRequest::consumer(b"me").to_vec().expect("legal");
    let refused = bench.core.on_client_message(T0, A, &login, &mut answers);
    assert_eq!(refused, Err(ClientError::LoginDenied(Denial::Unknown)), "a later request is judged anew");
    let msg = Msg::parse(&answers.0[0]).expect("whole");
    let Ok(LoginMsg::Status(status)) = LoginMsg::parse(&msg) else { panic!("{msg:?}") };
    let state = status.state.expect("it has one");
    assert_eq!((state.stream, state.code), (StreamState::Closed, StateCode::NOT_ENTITLED));
    assert_eq!(status.name, Some(&b"me"[..]));
}

#[test]
fn who_may_not_be_logged_in_any_more_is_told_and_named_to_be_cut_off() {
    let mut bench = Bench::watching();
    bench.log_in(B, &LoginRequest { no_refresh: true, ..LoginRequest::consumer(b"trader") });
    bench.took();
    assert_eq!(bench.core.set_users(only("trader"), &mut bench.log), [A]);
    assert_eq!(bench.took(), ["1/1: status closed suspect: this user may not log in here login"]);
    assert_eq!((bench.counters.logins_denied.get(), bench.counters.logins_revoked.get()), (1, 1));
    assert_eq!(bench.core.set_users(Users::everybody(), &mut bench.log), []);
}

#[test]
fn who_is_disconnected_by_an_operator_is_told_why_and_nobody_else_is() {
    let mut bench = Bench::watching();
    bench.log_in(B, &LoginRequest::consumer(b"trader"));
    bench.took();
    assert!(bench.core.announce_disconnect(A, Parting::Disconnected, &mut bench.log));
    assert_eq!(bench.took(), ["1/1: status open suspect: an operator disconnects this client login"]);
    assert!(!bench.core.announce_disconnect(ClientId(99), Parting::Disconnected, &mut bench.log));
    assert_eq!((bench.took(), bench.counters.clients_disconnected.get()), (vec![], 1));
}

#[test]
fn who_has_not_logged_in_is_disconnected_without_a_word() {
    let mut bench = Bench::alone();
    bench.core.on_client_connected(ClientId(3), ClientProfile::default());
    assert!(bench.core.announce_disconnect(ClientId(3), Parting::Disconnected, &mut bench.log));
    assert_eq!((bench.took(), bench.counters.clients_disconnected.get()), (vec![], 1));
}

#[test]
fn who_is_moved_on_is_told_so_if_it_has_logged_in() {
    let mut bench = Bench::watching();
    bench.core.on_client_connected(ClientId(3), ClientProfile::default());
    bench.took();
    let mut moves = |client| bench.core.announce_disconnect(client, Parting::Moved, &mut bench.log);
    assert_eq!([A, ClientId(3), ClientId(99)].map(&mut moves), [true, true, false]);
    assert_eq!(
        bench.took(),
        ["1/1: status open suspect: the server is drained: connect to another one login"]
    );
    let counted = (bench.counters.clients_drained.get(), bench.counters.clients_disconnected.get());
    assert_eq!(counted, (2, 0));
}
