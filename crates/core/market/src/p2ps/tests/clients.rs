//! Who may say what, and what it costs who may not.

use rdm::login::logout;

use super::*;

#[test]
fn clients_have_to_log_in_first_and_garbage_costs_the_connection() {
    let mut bench = Bench::running();
    let stranger = ClientId(9);
    bench.core.on_client_connected(stranger, ClientProfile::default());
    bench.request(stranger, 5, "IBM");
    assert_eq!(bench.took(), ["9/5: status closed suspect: log in first"]);
    let garbage = bench.core.on_client_message(T0, stranger, &[0xFF; 9], &mut bench.log);
    assert!(matches!(garbage, Err(ClientError::Malformed(_))), "{garbage:?}");
    let provider = LoginRequest::provider(b"feed").to_vec().expect("legal");
    let refused = bench.core.on_client_message(T0, stranger, &provider, &mut bench.log);
    assert_eq!(refused, Err(ClientError::LoginRefused));
    assert_eq!(bench.counters.client_messages_refused.get(), 2);
}

#[test]
fn a_logout_ends_everything_of_the_client() {
    let mut bench = Bench::watching();
    let bytes = logout(1).to_vec().expect("legal");
    assert_eq!(bench.core.on_client_message(T0, A, &bytes, &mut bench.log), Err(ClientError::LoggedOut));
    bench.took();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0]);
    assert_eq!((bench.counters.watchers.get(), bench.counters.clients.get()), (0, 1));
}

#[test]
fn requests_that_no_service_can_serve_are_refused() {
    let mut bench = Bench::running();
    let key = |service_id| Key {
        service_id,
        name: b"X",
        name_type: None,
        filter: None,
        identifier: None,
        attributes: None,
    };
    let by_price = ItemRequest::streaming(Domain::MARKET_BY_PRICE, 5, key(1));
    let unknown = ItemRequest::streaming(Domain::MARKET_PRICE, 6, key(2));
    for request in [by_price, unknown] {
        bench.client(A, &request.to_vec().expect("legal"));
    }
    let log = bench.took();
    assert!(log[0].contains("closed suspect: domain not among the capabilities"), "{log:?}");
    assert!(log[1].contains("closed suspect: there is no service of this id"), "{log:?}");
    assert_eq!(bench.counters.requests_refused.get(), 2);
}
