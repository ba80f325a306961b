//! Which of a daemon's connections a status page lists.
//!
//! A page looks at a bounded number of connections, so that a question costs the daemon's thread little however many
//! there are. `next` says where the next page begins.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use config::Ipv4Cidr;
use market::BUSIEST_MAX;
use serde_json::{Value, json};

/// Most connections that a page lists.
pub const LISTED_MAX: usize = 1_000;
/// Most connections that are looked at for a page.
pub const LOOKED_AT_MAX: usize = 10_000;
/// Longest text to compare with, in bytes.
const TEXT_BYTES_MAX: usize = 255;

/// A parameter of a question, by what it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    /// Connections with a higher id.
    After,
    /// So many at most.
    Limit,
    /// In which order.
    Sort,
    /// Those of a user.
    User,
    /// Those of an application, by its name.
    Application,
    /// Those of an application, by its id.
    ApplicationId,
    /// Those that come from an address or a network.
    Address,
    /// Those that speak a protocol.
    Protocol,
    /// Those in a state.
    State,
    /// Those for whose sockets so many bytes wait, or more.
    BacklogMin,
    /// So many of the items with most updates.
    Busiest,
    /// One item in detail.
    Item,
    /// The service of that item.
    Service,
}

impl Parameter {
    /// All of them.
    pub const ALL: &'static [Parameter] = &[
        Parameter::After,
        Parameter::Limit,
        Parameter::Sort,
        Parameter::User,
        Parameter::Application,
        Parameter::ApplicationId,
        Parameter::Address,
        Parameter::Protocol,
        Parameter::State,
        Parameter::BacklogMin,
        Parameter::Busiest,
        Parameter::Item,
        Parameter::Service,
    ];

    fn name(self) -> &'static str {
        match self {
            Parameter::After => "after",
            Parameter::Limit => "limit",
            Parameter::Sort => "sort",
            Parameter::User => "user",
            Parameter::Application => "application",
            Parameter::ApplicationId => "application_id",
            Parameter::Address => "address",
            Parameter::Protocol => "protocol",
            Parameter::State => "state",
            Parameter::BacklogMin => "backlog_min",
            Parameter::Busiest => "busiest",
            Parameter::Item => "item",
            Parameter::Service => "service",
        }
    }

    /// What its value has to be.
    fn allowed(self) -> &'static str {
        match self {
            Parameter::After => "the id of a connection, or `next` of a page: 0 to 18446744073709551615",
            Parameter::Limit => "1 to 1000",
            Parameter::Sort => "id or backlog",
            Parameter::User | Parameter::Application | Parameter::ApplicationId => {
                "1 to 255 bytes of UTF-8; a * at the end stands for any text"
            }
            Parameter::Address => "an address such as 10.0.0.5, or a network such as 10.0.0.0/24",
            Parameter::Protocol => "rssl or websocket",
            Parameter::State => "login, open or paused",
            Parameter::BacklogMin => "0 to 18446744073709551615 bytes",
            Parameter::Busiest => "1 to 32",
            Parameter::Item => {
                "the name of an item, or DOMAIN:NAME with the domain's number 1 to 255: 1 to 255 bytes"
            }
            Parameter::Service => "the name of a service: 1 to 255 bytes of UTF-8",
        }
    }
}

/// Why a question is refused. It names the parameter and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

/// A text to compare with: all of it, or how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    text: String,
    is_begin: bool,
}

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        if self.is_begin { text.starts_with(&self.text) } else { text == self.text }
    }
}

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Host(IpAddr),
    Network(Ipv4Cidr),
}

impl Origin {
    fn parse(text: &str) -> Option<Origin> {
        text.parse().map(Origin::Host).or_else(|_| text.parse().map(Origin::Network)).ok()
    }

    fn has(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Origin::Host(host), address) => *host == address,
            (Origin::Network(network), IpAddr::V4(address)) => network.contains(address),
            (Origin::Network(_), IpAddr::V6(_)) => false,
        }
    }
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The daemon and its connections.
    Status,
    /// What became of each update.
    Ledger,
    /// One item's way, update by update.
    Trace,
}

/// What somebody wants to see of a daemon's connections; by default the first [`LISTED_MAX`] of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    subject: Subject,
    after: Option<u64>,
    limit: usize,
    by_backlog: bool,
    user: Option<Pattern>,
    application: Option<Pattern>,
    application_id: Option<Pattern>,
    address: Option<Origin>,
    protocol: Option<&'static str>,
    state: Option<&'static str>,
    backlog_min: u64,
    busiest: usize,
    item: Option<(u8, String)>,
    service: Option<String>,
}

/// Domain of an item that is asked for by its name alone: market price.
const DOMAIN: u8 = 6;

impl Default for Query {
    fn default() -> Query {
        Query {
            subject: Subject::Status,
            after: None,
            limit: LISTED_MAX,
            by_backlog: false,
            user: None,
            application: None,
            application_id: None,
            address: None,
            protocol: None,
            state: None,
            backlog_min: 0,
            busiest: 0,
            item: None,
            service: None,
        }
    }
}

/// What is compared of a connection. What is not known matches no question about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The user's name; empty before the login.
    pub user: &'a str,
    /// The application's name, as it says.
    pub application: &'a str,
    /// The application's id, as it says.
    pub application_id: &'a str,
    /// Where the connection comes from.
    pub address: Option<IpAddr>,
    /// `rssl` or `websocket`.
    pub protocol: &'static str,
    /// `login`, `open` or `paused`.
    pub state: &'static str,
    /// Bytes that wait for its socket.
    pub backlog_bytes: u64,
}

/// What a question has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What to list, in order.
    pub listed: Vec<T>,
    /// How many were looked at.
    pub looked_at: usize,
    /// How many of these are as wanted.
    pub matched: usize,
    /// The last one that was looked at, if there are others behind it.
    pub next: Option<u64>,
}

impl<T> Page<T> {
    /// The page as a part of a status page. `total` is the number of all connections.
    #[must_use]
    pub fn to_json(&self, total: usize) -> Value {
        json!({"total": total, "looked_at": self.looked_at, "matched": self.matched, "next": self.next})
    }
}

impl Query {
    /// What became of each update: of this all is listed.
    #[must_use]
    pub fn ledger() -> Query {
        Query { subject: Subject::Ledger, ..Query::default() }
    }

    /// One item's way from hop to hop: the part of a URL behind its `?`, which names the item.
    ///
    /// # Errors
    /// As [`Query::parse`]; or the item is missing.
    pub fn trace(text: &str) -> Result<Query, QueryError> {
        let query = Query::parse(text, &[Parameter::Item, Parameter::Service, Parameter::After])?;
        if query.item.is_none() {
            return Err(QueryError(format!("`item` is missing: {}", Parameter::Item.allowed())));
        }
        Ok(Query { subject: Subject::Trace, ..query })
    }

    /// What the question is about.
    #[must_use]
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Reads the part of a URL behind its `?`. The daemon understands `known`.
    ///
    /// # Errors
    /// [`QueryError`]: a parameter is not known, is given twice, or has a value that is not allowed.
    pub fn parse(text: &str, known: &[Parameter]) -> Result<Query, QueryError> {
        let (mut query, mut given) = (Query::default(), BTreeSet::new());
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(parameter) = known.iter().copied().find(|parameter| parameter.name() == name) else {
                let names: Vec<&str> = known.iter().map(|parameter| parameter.name()).collect();
                let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
                return Err(QueryError(format!("{} is no parameter here: {names}", shown(name))));
            };
            if !given.insert(parameter) {
                return Err(QueryError(format!("`{name}` is given twice")));
            }
            let value = decoded(value);
            if value.as_deref().and_then(|value| query.set(parameter, value)).is_none() {
                let is = value.map_or_else(|| "not UTF-8 in %XX".to_owned(), |value| shown(&value));
                return Err(QueryError(format!("`{name}` must be {}, is {is}", parameter.allowed())));
            }
        }
        Ok(query)
    }

    fn set(&mut self, parameter: Parameter, value: &str) -> Option<()> {
        match parameter {
            Parameter::After => self.after = Some(number(value)?),
            Parameter::Limit => {
                let limit = usize::try_from(number(value)?).ok()?;
                self.limit = (1..=LISTED_MAX).contains(&limit).then_some(limit)?;
            }
            Parameter::Sort => self.by_backlog = one_of(value, &["id", "backlog"])? == "backlog",
            Parameter::User => self.user = Some(pattern(value)?),
            Parameter::Application => self.application = Some(pattern(value)?),
            Parameter::ApplicationId => self.application_id = Some(pattern(value)?),
            Parameter::Address => self.address = Some(Origin::parse(value)?),
            Parameter::Protocol => self.protocol = Some(one_of(value, &["rssl", "websocket"])?),
            Parameter::State => self.state = Some(one_of(value, &["login", "open", "paused"])?),
            Parameter::BacklogMin => self.backlog_min = number(value)?,
            Parameter::Busiest => {
                let count = usize::try_from(number(value)?).ok()?;
                self.busiest = (1..=BUSIEST_MAX).contains(&count).then_some(count)?;
            }
            Parameter::Item => self.item = Some(item(value)?),
            Parameter::Service => self.service = Some(text(value)?.to_owned()),
        }
        Some(())
    }

    /// Most that are listed.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether those with most waiting for them come first, in place of an order by id.
    #[must_use]
    pub fn is_by_backlog(&self) -> bool {
        self.by_backlog
    }

    /// Where the page begins: behind this id.
    #[must_use]
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    /// How many of the busiest items are listed; 0 if nobody wants to see them.
    #[must_use]
    pub fn busiest(&self) -> usize {
        self.busiest
    }

    /// The item that is shown in detail: service, if it is given, domain, name.
    #[must_use]
    pub fn item(&self) -> Option<(Option<&str>, u8, &str)> {
        let (domain, name) = self.item.as_ref()?;
        Some((self.service.as_deref(), *domain, name))
    }

    fn matches(&self, facts: &Facts<'_>) -> bool {
        let has = |wanted: &Option<Pattern>, text: &str| wanted.as_ref().is_none_or(|w| w.matches(text));
        let comes_from = |origin: &Origin| facts.address.is_some_and(|address| origin.has(address));
        facts.backlog_bytes >= self.backlog_min
            && self.protocol.is_none_or(|wanted| wanted == facts.protocol)
            && self.state.is_none_or(|wanted| wanted == facts.state)
            && self.address.as_ref().is_none_or(comes_from)
            && has(&self.user, facts.user)
            && has(&self.application, facts.application)
            && has(&self.application_id, facts.application_id)
    }

    /// Chooses what to list of connections, each with its id and in the order of ids, from the one behind
    /// [`Query::after`] on. At most [`LOOKED_AT_MAX`] are looked at: an order by backlog is one of these.
    pub fn page<'a, T>(&self, connections: impl Iterator<Item = (u64, Facts<'a>, T)>) -> Page<T> {
        let mut connections = connections.peekable();
        let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
        while looked_at < LOOKED_AT_MAX && (self.by_backlog || found.len() < self.limit) {
            let Some((id, facts, what)) = connections.next() else { break };
            (looked_at, last) = (looked_at + 1, Some(id));
            if self.matches(&facts) {
                found.push((facts.backlog_bytes, what));
            }
        }
        let matched = found.len();
        if self.by_backlog {
            // Stable: equal ones stay in the order of their ids.
            found.sort_by_key(|(backlog_bytes, _)| std::cmp::Reverse(*backlog_bytes));
            found.truncate(self.limit);
        }
        let next = last.filter(|_| connections.peek().is_some());
        Page { listed: found.into_iter().map(|(_, what)| what).collect(), looked_at, matched, next }
    }
}

fn number(text: &str) -> Option<u64> {
    // `parse` takes a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| u64::from_str(text).ok())?
}

fn one_of(text: &str, allowed: &[&'static str]) -> Option<&'static str> {
    allowed.iter().copied().find(|known| *known == text)
}

fn text(text: &str) -> Option<&str> {
    (1..=TEXT_BYTES_MAX).contains(&text.len()).then_some(text)
}

/// A name, or a domain's number and a name. A name that itself begins with a number and a colon needs the number.
fn item(value: &str) -> Option<(u8, String)> {
    let numbered = value.split_once(':').and_then(|(domain, name)| Some((number(domain)?, name)));
    let (domain, name) = numbered.unwrap_or((DOMAIN.into(), value));
    let domain = u8::try_from(domain).ok().filter(|domain| *domain > 0)?;
    Some((domain, text(name)?.to_owned()))
}

fn pattern(text: &str) -> Option<Pattern> {
    let text = self::text(text)?;
    let begin = text.strip_suffix('*');
    Some(Pattern { text: begin.unwrap_or(text).to_owned(), is_begin: begin.is_some() })
}

/// A value without its `+` and `%XX`; `None` if it is not UTF-8 then, or a `%` stands for nothing.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A text of somebody's as an error shows it.
fn shown(text: &str) -> String {
    let begin: String = text.chars().take(40).collect();
    let more = if begin.len() < text.len() { "..." } else { "" };
    format!("{begin:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Query {
        Query::parse(text, Parameter::ALL).expect("it is allowed")
    }

    fn refused(text: &str) -> String {
        Query::parse(text, Parameter::ALL).expect_err("it is not allowed").to_string()
    }

    /// A crowd: ids are even, every fifth has user `desk-N`, backlogs fall and rise.
    fn crowd(count: u64, after: Option<u64>) -> impl Iterator<Item = (u64, Facts<'static>, u64)> {
        let ids = (0..count).map(|at| 2 * at).filter(move |id| after.is_none_or(|after| *id > after));
        ids.map(|id| {
            let user = if id % 10 == 0 { "desk-7" } else { "else" };
            let [.., third, fourth] = (id as u32).to_be_bytes();
            let address = Some(IpAddr::from([10, 0, third, fourth]));
            (id, Facts { user, address, backlog_bytes: id * 7919 % 10_007, ..Facts::default() }, id)
        })
    }

    #[test]
    fn pages_one_after_the_other_list_all_of_a_crowd_once() {
        const CROWD: u64 = 25_000;
        for (first, pages) in [("limit=1000", 25), ("limit=999", 26), ("", 25)] {
            let (mut query, mut listed, mut asked) = (parse(first), Vec::new(), 0);
            loop {
                let page = query.page(crowd(CROWD, query.after()));
                asked += 1;
                listed.extend(page.listed);
                let Some(next) = page.next else { break };
                query = parse(&format!("{first}&after={next}"));
            }
            assert_eq!((listed.len() as u64, asked), (CROWD, pages), "{first}");
            assert!(listed.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn a_page_looks_at_so_many_connections_and_no_more_whatever_is_asked() {
        for text in ["user=nobody", "sort=backlog", "backlog_min=99999999"] {
            let mut looked = 0;
            let query = parse(text);
            let page = query.page(crowd(1_000_000, None).inspect(|_| looked += 1));
            // One more is taken to know whether there is one.
            assert_eq!((page.looked_at, looked), (LOOKED_AT_MAX, LOOKED_AT_MAX + 1), "{text}");
            assert_eq!(page.next, Some(2 * (LOOKED_AT_MAX as u64 - 1)));
            assert!(page.listed.len() <= LISTED_MAX);
        }
    }

    #[test]
    fn what_is_wanted_is_found_behind_what_is_not() {
        let query = parse("user=desk-*&limit=3");
        let page = query.page(crowd(10_000, None));
        assert_eq!((page.listed, page.looked_at, page.next), (vec![0, 10, 20], 11, Some(20)));
        let query = parse("user=desk-7&limit=3&after=20");
        assert_eq!(query.page(crowd(10_000, query.after())).listed, [30, 40, 50]);
        assert!(parse("user=desk").page(crowd(10_000, None)).listed.is_empty());
        let page = parse("address=10.0.1.0/24&sort=id").page(crowd(10_000, None));
        assert_eq!((page.listed.first(), page.listed.len(), page.next), (Some(&256), 128, None));
        assert_eq!(parse("address=10.0.1.4").page(crowd(10_000, None)).listed, [260]);
        assert_eq!(parse("address=0.0.0.0/0&limit=1").page(crowd(10_000, None)).listed, [0]);
        assert!(parse("address=::1").page(crowd(10_000, None)).listed.is_empty());
        for text in ["protocol=rssl", "state=open", "application=x*", "application_id=256"] {
            assert!(parse(text).page(crowd(100, None)).listed.is_empty(), "{text}");
        }
    }

    #[test]
    fn the_longest_backlogs_come_first() {
        let page = parse("sort=backlog&limit=4&backlog_min=1").page(crowd(10_000, None));
        let mut all: Vec<(u64, u64)> = crowd(10_000, None).map(|(id, f, _)| (f.backlog_bytes, id)).collect();
        all.sort_by_key(|(bytes, id)| (std::cmp::Reverse(*bytes), *id));
        assert_eq!(page.listed, all[..4].iter().map(|(_, id)| *id).collect::<Vec<_>>());
        assert_eq!((page.looked_at, page.matched, page.next), (10_000, 9_999, None));
        let json = page.to_json(10_000);
        assert_eq!(json, json!({"total": 10_000, "looked_at": 10_000, "matched": 9_999, "next": null}));
    }

    #[test]
    fn what_is_not_allowed_is_refused_with_its_name_and_what_is() {
        for value in ["0", "1001", "x", "-1", "%2B5", "", "99999999999999999999999"] {
            let said = refused(&format!("limit={value}"));
            assert!(said.starts_with("`limit` must be 1 to 1000, is \""), "{said}");
        }
        assert_eq!(refused("sort=user"), "`sort` must be id or backlog, is \"user\"");
        assert_eq!(refused("limit"), "`limit` must be 1 to 1000, is \"\"");
        assert_eq!(refused("limit=1&limit=1"), "`limit` is given twice");
        assert!(refused("address=10.0.0.1/24").starts_with("`address` must be an address such as"));
        assert!(refused("user=%f").ends_with("is not UTF-8 in %XX"));
        assert!(refused("user=%ff").ends_with("is not UTF-8 in %XX"));
        let long = "u".repeat(TEXT_BYTES_MAX + 1);
        assert!(refused(&format!("user={long}")).ends_with("uuuu\"..."));
        let few = Query::parse("user=x", &[Parameter::After, Parameter::Limit]);
        assert_eq!(few.expect_err("not here").to_string(), "\"user\" is no parameter here: after, limit");
        let none = Query::parse("limit=1", &[]).expect_err("not here").to_string();
        assert_eq!(none, "\"limit\" is no parameter here: there are none");
    }

    #[test]
    fn items_are_asked_for_by_name_or_by_domain_and_name() {
        assert_eq!((parse("").busiest(), parse("busiest=32").busiest()), (0, 32));
        assert_eq!(parse("item=BTC").item(), Some((None, 6, "BTC")));
        assert_eq!(parse("item=8:BTC&service=S").item(), Some((Some("S"), 8, "BTC")));
        assert_eq!(parse("item=6:8:BTC").item(), Some((None, 6, "8:BTC")));
        assert_eq!(parse("service=S").item(), None);
        assert_eq!(refused("busiest=33"), "`busiest` must be 1 to 32, is \"33\"");
        for wrong in ["", "8:", "0:BTC", "256:BTC"] {
            assert!(
                refused(&format!("item={wrong}")).starts_with("`item` must be the name of an item"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn texts_are_taken_out_of_their_url() {
        assert_eq!(parse("user=a+b%26%C3%A9*"), Query { user: pattern("a b&é*"), ..Query::default() });
        assert_eq!(parse(""), Query::default());
        assert_eq!(parse("item=A%3AB&service=S").item(), Some((Some("S"), 6, "A:B")));
        assert_eq!(parse("&&"), Query::default());
    }
}
