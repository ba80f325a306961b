//! Which providers may log in.

use std::net::Ipv4Addr;

use super::*;
use crate::users::{Denial, User, Users};

#[test]
fn a_provider_that_may_not_log_in_is_refused_and_one_that_may_not_any_more_named() {
    let mut bench = Bench::running();
    let home = Ipv4Addr::new(10, 0, 0, 1);
    let user = User { networks: vec![home..=home], ..User::default() };
    let users = Users::listed([("feed".to_owned(), user)]);
    assert_eq!(bench.core.set_users(users, &mut bench.log), [PROVIDER], "it came from nowhere");
    assert_eq!(bench.log.take(), ["provider 1: Status login"]);
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    bench.log.take();
    let login = LoginRequest::provider(b"feed").to_vec().expect("legal");
    for (provider, address, wanted) in [
        (ProviderId(5), Ipv4Addr::LOCALHOST, Err(ProviderError::LoginDenied(Denial::Address))),
        (ProviderId(6), home, Ok(())),
    ] {
        bench.core.on_provider_connected(provider, Some(address));
        assert_eq!(bench.core.on_provider_message(T0, provider, &login, &mut bench.log), wanted);
        assert_eq!(bench.core.is_logged_in(provider), wanted.is_ok());
    }
    assert_eq!(bench.log.take(), ["provider 5: Status login", "provider 6: Refresh login"]);
    assert_eq!((bench.counters.logins_denied.get(), bench.counters.logins_revoked.get()), (2, 1));
    let denied: Vec<_> = bench.core.gate().denied().map(|(credentials, _)| credentials.address).collect();
    assert_eq!(denied, [None, Some(Ipv4Addr::LOCALHOST)]);
}
