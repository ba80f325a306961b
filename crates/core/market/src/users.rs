//! Who may log in.
//!
//! A list says which users there are, and what each may log in with and from. It does not prove who somebody
//! is: a login says its user's name, and the address of the connection alone cannot be made up. Where that is
//! not enough, ports ask for client certificates.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use rdm::login::{LoginRequest, NameType};
use rwf::StateCode;

/// The users that may log in: all, or those of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users(Option<BTreeMap<String, User>>);

/// What a user of the list may log in with. What is empty is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Ids of applications.
    pub applications: Vec<String>,
    /// Positions, as logins say them: `10.0.0.5/host`.
    pub positions: Vec<String>,
    /// Addresses that connections come from.
    pub networks: Vec<RangeInclusive<Ipv4Addr>>,
}

/// The name in a list that stands for every user who is not in it by name.
pub const ANYBODY: &str = "*";

/// What a login says of who logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user; empty if it is a token instead.
    pub user: String,
    /// The id of the application.
    pub application_id: String,
    /// Where the user sits, as the client says.
    pub position: String,
    /// Where the connection comes from; `None` if that is no IPv4 address.
    pub address: Option<Ipv4Addr>,
}

impl Credentials {
    /// That of a login on a connection from `address`.
    #[must_use]
    pub fn of(request: &LoginRequest<'_>, address: Option<Ipv4Addr>) -> Credentials {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_name = matches!(request.name_type, NameType::USER_NAME | NameType::EMAIL_ADDRESS);
        Credentials {
            user: if is_name { text(request.name) } else { String::new() },
            application_id: text(request.application_id),
            position: text(request.position.unwrap_or_default()),
            address,
        }
    }
}

/// Why somebody may not log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The user is not in the list.
    Unknown,
    /// The login has a token in place of a name, which nothing here can check.
    Token,
    /// Not with this application.
    Application,
    /// Not at this position.
    Position,
    /// Not from this address.
    Address,
    /// As many of the user's class are logged in as may be at a time.
    Connections,
}

impl Denial {
    /// The code of the login's status.
    #[must_use]
    pub fn code(self) -> StateCode {
        match self {
            Denial::Application => StateCode::DACS_USER_ACCESS_DENIED,
            Denial::Connections => StateCode::EXCEEDED_MAX_MOUNTS_PER_USER,
            _ => StateCode::NOT_ENTITLED,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denial::Unknown => "this user may not log in here",
            Denial::Token => "tokens are not taken here, log in with a user name",
            Denial::Application => "this user may not log in with this application id",
            Denial::Position => "this user may not log in at this position",
            Denial::Address => "this user may not log in from this address",
            Denial::Connections => "as many connections as this user's class may have are logged in",
        })
    }
}

impl Users {
    /// Everybody may log in.
    #[must_use]
    pub const fn everybody() -> Users {
        Users(None)
    }

    /// These alone, by name.
    #[must_use]
    pub fn listed(users: impl IntoIterator<Item = (String, User)>) -> Users {
        Users(Some(users.into_iter().collect()))
    }

    /// How many are listed; `None` if everybody may log in.
    #[must_use]
    pub fn listed_count(&self) -> Option<usize> {
        self.0.as_ref().map(BTreeMap::len)
    }

    /// Whether somebody may log in.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self, credentials: &Credentials) -> Result<(), Denial> {
        let Some(listed) = &self.0 else { return Ok(()) };
        let by_name = listed.get(&credentials.user).filter(|_| credentials.user != ANYBODY);
        let found = by_name.or_else(|| listed.get(ANYBODY));
        let user = found.ok_or(if credentials.user.is_empty() { Denial::Token } else { Denial::Unknown })?;
        let has = |allowed: &[String], said: &String| allowed.is_empty() || allowed.contains(said);
        let is_near =
            |near: &RangeInclusive<Ipv4Addr>| credentials.address.is_some_and(|at| near.contains(&at));
        if !has(&user.applications, &credentials.application_id) {
            Err(Denial::Application)
        } else if !has(&user.positions, &credentials.position) {
            Err(Denial::Position)
        } else if !user.networks.is_empty() && !user.networks.iter().any(is_near) {
            Err(Denial::Address)
        } else {
            Ok(())
        }
    }
}

/// Who may log in, and who was denied last.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    users: Users,
    denied: VecDeque<(Credentials, Denial)>,
}

/// How many denials are kept.
const DENIED_MAX: usize = 16;

impl Gate {
    /// From now on these may log in.
    pub(crate) fn set(&mut self, users: Users) {
        self.users = users;
    }

    /// Whether somebody may log in; who may not is remembered.
    pub(crate) fn admit(&mut self, credentials: &Credentials) -> Result<(), Denial> {
        let result = self.users.judge(credentials);
        result.inspect_err(|why| self.note_denied(credentials, *why))
    }

    /// Somebody may not log in, and is remembered.
    pub(crate) fn note_denied(&mut self, credentials: &Credentials, why: Denial) {
        if self.denied.len() == DENIED_MAX {
            self.denied.pop_front();
        }
        self.denied.push_back((credentials.clone(), why));
    }

    /// Who may log in.
    #[must_use]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// The user that was denied last; empty if that has no name, or there was none.
    #[must_use]
    pub fn last_denied(&self) -> &str {
        self.denied.back().map_or("", |(credentials, _)| &credentials.user)
    }

    /// Who was denied last and why, the oldest first; not more than 16.
    pub fn denied(&self) -> impl Iterator<Item = (&Credentials, Denial)> + '_ {
        self.denied.iter().map(|(credentials, why)| (credentials, *why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(user: &str) -> Credentials {
        Credentials {
            user: user.to_owned(),
            application_id: "256".to_owned(),
            position: "10.0.0.5/desk".to_owned(),
            address: Some(Ipv4Addr::new(10, 0, 0, 5)),
        }
    }

    fn only(user: User) -> Users {
        Users::listed([("trader".to_owned(), user)])
    }

    #[test]
    fn without_a_list_everybody_may_log_in_and_with_one_those_that_it_names() {
        assert_eq!(Users::everybody().judge(&credentials("anyone")), Ok(()));
        let users = only(User::default());
        assert_eq!(users.judge(&credentials("trader")), Ok(()));
        assert_eq!(users.judge(&credentials("Trader")), Err(Denial::Unknown));
        assert_eq!((users.listed_count(), Users::default().listed_count()), (Some(1), None));
    }

    #[test]
    fn each_limit_of_a_user_has_its_refusal() {
        let network = |last| vec![Ipv4Addr::new(10, 0, 0, 0)..=Ipv4Addr::new(10, 0, 0, last)];
        let good = User {
            applications: vec!["1".to_owned(), "256".to_owned()],
            positions: vec!["10.0.0.5/desk".to_owned()],
            networks: network(255),
        };
        assert_eq!(only(good.clone()).judge(&credentials("trader")), Ok(()));
        let denied = |user: User| only(user).judge(&credentials("trader")).expect_err("it is denied");
        let other = vec!["other".to_owned()];
        assert_eq!(denied(User { applications: other.clone(), ..good.clone() }), Denial::Application);
        assert_eq!(denied(User { positions: other, ..good.clone() }), Denial::Position);
        assert_eq!(denied(User { networks: network(4), ..good.clone() }), Denial::Address);
        let elsewhere = Credentials { address: None, ..credentials("trader") };
        assert_eq!(only(good).judge(&elsewhere), Err(Denial::Address));
        assert_eq!(Denial::Application.code(), StateCode::DACS_USER_ACCESS_DENIED);
        assert_eq!(Denial::Address.code(), StateCode::NOT_ENTITLED);
    }

    #[test]
    fn a_star_stands_for_whoever_is_not_named_and_is_no_name() {
        let limited = User { applications: vec!["1".to_owned()], ..User::default() };
        let star = (ANYBODY.to_owned(), User::default());
        let users = Users::listed([star, ("trader".to_owned(), limited.clone())]);
        assert_eq!((users.judge(&credentials("else")), users.judge(&credentials(""))), (Ok(()), Ok(())));
        assert_eq!(
            users.judge(&credentials("trader")),
            Err(Denial::Application),
            "what is said of it by name counts"
        );
        assert_eq!(Users::listed([]).judge(&credentials("*")), Err(Denial::Unknown));
        let limited = Users::listed([(ANYBODY.to_owned(), limited)]);
        assert_eq!(limited.judge(&credentials("*")), Err(Denial::Application));
    }

    #[test]
    fn a_token_is_no_name() {
        let request = LoginRequest {
            name_type: NameType::AUTHENTICATION_TOKEN,
            authentication_token: Some(b"abc"),
            ..LoginRequest::consumer(b"trader")
        };
        let credentials = Credentials::of(&request, None);
        assert_eq!(only(User::default()).judge(&credentials), Err(Denial::Token));
        assert_eq!(Users::everybody().judge(&credentials), Ok(()));
    }

    #[test]
    fn the_last_denials_are_kept_and_no_more() {
        let mut gate = Gate::default();
        gate.set(Users::listed([]));
        (0..100).for_each(|n| assert!(gate.admit(&credentials(&n.to_string())).is_err()));
        let users: Vec<_> = gate.denied().map(|(credentials, _)| credentials.user.as_str()).collect();
        assert_eq!((users.len(), users[0], users[DENIED_MAX - 1]), (DENIED_MAX, "84", "99"));
    }
}
