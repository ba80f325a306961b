//! What of the hops' ledgers adds up, and what does not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A source distributor or a P2PS, and its ledger.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) address: String,
    pub(super) ledger: Value,
}

/// What is not explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Where.
    pub(super) hop: String,
    /// Of which service; empty for all.
    pub(super) service: String,
    /// In words, with the numbers.
    pub(super) what: String,
    /// How much is not explained: more on the left side than on the right, or less.
    pub(super) unexplained: i128,
    /// The run that published it, if it is about one.
    pub(super) instance: Option<String>,
}

/// The last number of each stream: by the run that publishes it, and the service.
pub(super) type Positions = BTreeMap<(String, String), u64>;

/// The terms of what a source distributor received, as they are named in a ledger.
pub(super) const PROVIDERS: [&str; 6] =
    ["published", "unwanted", "standby", "in_images", "without_image", "unusable"];
/// Those of what a P2PS has taken.
pub(super) const TAKEN: [&str; 5] = ["applied", "in_images", "unwatched", "unusable", "others"];
/// Those of what a P2PS has received and not taken.
pub(super) const NOT_TAKEN: [&str; 3] = ["standby", "behind_gaps", "dropped_behind_gaps"];
/// Those of what clients were due.
pub(super) const CLIENTS: [&str; 7] =
    ["delivered", "conflated", "in_images", "outside_views", "unusable", "ended", "waiting"];

/// A million updates a second for 35 years: more is no ledger's number, and sums of thousands of these are no overflow.
const NUMBER_MAX: u64 = 1 << 50;

pub(super) fn number(of: &Value, what: &str) -> u64 {
    of[what].as_u64().unwrap_or(0).min(NUMBER_MAX)
}

pub(super) fn word<'v>(of: &'v Value, what: &str) -> &'v str {
    of[what].as_str().unwrap_or_default()
}

pub(super) fn list<'v>(of: &'v Value, what: &str) -> &'v [Value] {
    of[what].as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn sum(of: &Value, terms: &[&str]) -> u64 {
    terms.iter().map(|term| number(of, term)).sum()
}

impl Hop {
    /// Those of a document.
    pub(super) fn all_of(address: &str, document: &Value) -> Vec<Hop> {
        let hop = |ledger: &Value| Hop { address: address.to_owned(), ledger: ledger.clone() };
        list(document, "hops").iter().map(hop).collect()
    }

    /// Whether it is a P2PS.
    pub(super) fn is_server(&self) -> bool {
        word(&self.ledger, "role") == "p2ps"
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        if self.is_server() {
            format!("P2PS {} at {}", word(&self.ledger, "name"), self.address)
        } else {
            format!("source distributor {} at {}", word(&self.ledger, "instance"), self.address)
        }
    }

    pub(super) fn services(&self) -> &[Value] {
        list(&self.ledger, "services")
    }

    pub(super) fn to_json(&self) -> Value {
        let mut described = self.ledger.clone();
        described["address"] = json!(self.address);
        described
    }

    fn fault(&self, service: &str, what: String, unexplained: i128) -> Fault {
        Fault { hop: self.name(), service: service.to_owned(), what, unexplained, instance: None }
    }

    /// Nothing if two sides are equal.
    fn compare(&self, service: &str, what: &str, left: u64, right: u64) -> Option<Fault> {
        (left != right).then(|| {
            let text = format!("{what}: {left} are not {right}");
            self.fault(service, text, i128::from(left) - i128::from(right))
        })
    }
}

impl Fault {
    pub(super) fn to_json(&self) -> Value {
        json!({"hop": self.hop, "service": self.service, "what": self.what, "unexplained": i64::try_from(self.unexplained).unwrap_or(i64::MAX)})
    }

    /// Whether it is about a run that is among these, or about none.
    pub(super) fn is_of(&self, published: &Positions) -> bool {
        self.instance.as_ref().is_none_or(|instance| published.keys().any(|(known, _)| known == instance))
    }
}

/// What source distributors have published, and relays of P2PSs with shards.
pub(super) fn published(hops: &[Hop]) -> Positions {
    let mut positions = Positions::new();
    for hop in hops {
        for service in hop.services() {
            let (instance, sequence) = match hop.is_server() {
                false => (word(&hop.ledger, "instance"), number(service, "sequence")),
                true => (word(&hop.ledger, "relay"), number(&service["to_shards"], "sequence")),
            };
            if !instance.is_empty() {
                positions.insert((instance.to_owned(), word(service, "service").to_owned()), sequence);
            }
        }
    }
    positions
}

/// What was published and did not reach a P2PS, nor is known there to be lost.
pub(super) fn missing(published: &Positions, servers: &[Hop]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let relays: Vec<&str> = servers.iter().map(|hop| word(&hop.ledger, "relay")).collect();
    for hop in servers {
        for ((instance, service), sequence) in published {
            if relays.contains(&instance.as_str()) || is_among_others(hop.services(), service) {
                continue;
            }
            let last = position(hop.services(), instance, service);
            faults.extend(lacks(hop, "", (instance, service, *sequence), last, true));
        }
        let relay = word(&hop.ledger, "relay");
        for shard in list(&hop.ledger, "shards") {
            for ((_, service), sequence) in published.iter().filter(|((instance, _), _)| instance == relay) {
                if is_among_others(list(shard, "services"), service) {
                    continue;
                }
                let last = position(list(shard, "services"), relay, service);
                let name = format!("shard {}: ", number(shard, "shard"));
                faults.extend(lacks(hop, &name, (relay, service, *sequence), last, false));
            }
        }
    }
    faults
}

/// Whether a service is not told apart from others, because there are too many: those have no name.
fn is_among_others(services: &[Value], service: &str) -> bool {
    let is_named = |known: &Value| word(known, "service") == service;
    let are_others = |known: &Value| word(known, "service").is_empty() && sum(&known["taken"], &TAKEN) > 0;
    !services.iter().any(is_named) && services.iter().any(are_others)
}

/// The last number that was taken of a stream, if it is received.
fn position(services: &[Value], instance: &str, service: &str) -> Option<u64> {
    let known = services.iter().find(|known| word(known, "service") == service)?;
    let stream = list(known, "streams").iter().find(|stream| word(stream, "instance") == instance)?;
    Some(number(stream, "last"))
}

fn lacks(
    hop: &Hop,
    part: &str,
    (instance, service, sequence): (&str, &str, u64),
    last: Option<u64>,
    has_instance: bool,
) -> Option<Fault> {
    let lacks = sequence.saturating_sub(last.unwrap_or(0));
    if lacks == 0 {
        return None;
    }
    let what = match last {
        Some(last) => format!(
            "{part}numbers {} to {sequence} of {instance} were published, and not received, and are not known to be lost",
            last + 1
        ),
        None => format!("{part}nothing is received of {instance}, which has published {sequence} messages"),
    };
    let instance = has_instance.then(|| instance.to_owned());
    Some(Fault { instance, ..hop.fault(service, what, lacks.into()) })
}

/// Numbers that a P2PS has and nobody has published.
pub(super) fn invented(published: &Positions, hops: &[Hop]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for hop in hops.iter().filter(|hop| hop.is_server()) {
        for service in hop.services() {
            let name = word(service, "service");
            for stream in list(service, "streams") {
                let (instance, last) = (word(stream, "instance"), number(stream, "last"));
                let sequence = published.get(&(instance.to_owned(), name.to_owned())).copied();
                if let Some(sequence) = sequence.filter(|sequence| last > *sequence) {
                    let what =
                        format!("number {last} of {instance}, which has published {sequence} messages");
                    faults.push(hop.fault(name, what, i128::from(last) - i128::from(sequence)));
                }
            }
        }
    }
    faults
}

/// What does not add up within a hop, where all numbers of a thread are of one moment.
pub(super) fn faults_within(hop: &Hop) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !hop.is_server() {
        let ledger = &hop.ledger;
        let of_services: u64 = hop.services().iter().map(|s| sum(&s["providers"], &PROVIDERS)).sum();
        let others = sum(ledger, &["of_no_item", "private", "unreadable"]);
        let accounted = of_services + others + sum(&ledger["withdrawn"], &PROVIDERS);
        faults.extend(hop.compare(
            "",
            "updates received from providers",
            number(ledger, "received"),
            accounted,
        ));
        for service in hop.services() {
            let published = number(&service["providers"], "published") + number(service, "posted");
            let name = word(service, "service");
            faults.extend(hop.compare(name, "updates published", number(service, "updates"), published));
        }
        return faults;
    }
    for service in hop.services() {
        faults.extend(faults_of_service(hop, "", service));
        let to_shards = &service["to_shards"];
        if !to_shards.is_null() {
            let (name, accounted) = (word(service, "service"), sum(to_shards, &CLIENTS));
            faults.extend(hop.compare(name, "updates due to shards", number(to_shards, "due"), accounted));
        }
    }
    for shard in list(&hop.ledger, "shards") {
        let part = format!("shard {}: ", number(shard, "shard"));
        let services = list(shard, "services").iter();
        faults.extend(services.flat_map(|service| faults_of_service(hop, &part, service)));
    }
    faults
}

fn faults_of_service(hop: &Hop, part: &str, service: &Value) -> Vec<Fault> {
    let (name, ended) = (word(service, "service"), &service["streams_ended"]);
    let (streams, mut faults) = (list(service, "streams"), Vec::new());
    for stream in streams.iter().chain([ended]) {
        let what = match word(stream, "instance") {
            "" => format!("{part}numbers of streams that are gone"),
            instance => format!("{part}numbers of {instance}"),
        };
        let accounted = sum(stream, &["received", "lost"]);
        faults.extend(hop.compare(name, &what, number(stream, "numbers"), accounted));
    }
    let all = |what: &[&str]| streams.iter().chain([ended]).map(|stream| sum(stream, what)).sum::<u64>();
    let accounted = sum(&service["taken"], &TAKEN) + all(&NOT_TAKEN);
    faults.extend(hop.compare(name, &format!("{part}messages received"), all(&["received"]), accounted));
    let clients = &service["clients"];
    let (due, accounted) = (number(clients, "due"), sum(clients, &CLIENTS));
    faults.extend(hop.compare(name, &format!("{part}updates due to clients"), due, accounted));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distributor(sequence: u64) -> Hop {
        let providers = json!({"published": 8, "unwanted": 2});
        let service = json!({"service": "A", "providers": providers, "sequence": sequence, "updates": 8});
        let ledger =
            json!({"role": "source-distributor", "instance": "ab", "received": 10, "services": [service]});
        Hop { address: "sd:1".to_owned(), ledger }
    }

    fn server(last: u64, lost: u64) -> Hop {
        let (numbers, received) = (last, last - lost);
        let stream = json!({
            "instance": "ab", "first": 1, "last": last, "numbers": numbers, "received": received, "lost": lost,
        });
        let service = json!({
            "service": "A", "streams": [stream], "streams_ended": {},
            "taken": {"applied": received - 1, "others": 1}, "clients": {"due": 6, "delivered": 4, "waiting": 2},
        });
        Hop { address: "p:1".to_owned(), ledger: json!({"role": "p2ps", "name": "p", "services": [service]}) }
    }

    fn said(faults: &[Fault]) -> Vec<(&str, i128)> {
        faults.iter().map(|fault| (fault.what.as_str(), fault.unexplained)).collect()
    }

    #[test]
    fn what_is_lost_and_known_is_explained() {
        let (distributor, server) = (distributor(9), server(9, 3));
        assert_eq!(said(&faults_within(&distributor)), []);
        assert_eq!(said(&faults_within(&server)), []);
        let published = published(std::slice::from_ref(&distributor));
        assert_eq!(said(&missing(&published, std::slice::from_ref(&server))), []);
        assert_eq!(said(&invented(&published, &[server])), []);
    }

    #[test]
    fn what_is_published_and_nowhere_is_named_with_its_numbers() {
        let published = published(&[distributor(9)]);
        let faults = missing(&published, &[server(7, 0)]);
        let what = "numbers 8 to 9 of ab were published, and not received, and are not known to be lost";
        assert_eq!(said(&faults), [(what, 2)]);
        assert!(faults[0].is_of(&published) && !faults[0].is_of(&Positions::new()));
        let nothing = Hop { ledger: json!({"role": "p2ps"}), ..server(1, 0) };
        let what = "nothing is received of ab, which has published 9 messages";
        assert_eq!(said(&missing(&published, &[nothing])), [(what, 9)]);
        let what = "number 11 of ab, which has published 9 messages";
        assert_eq!(said(&invented(&published, &[server(11, 0)])), [(what, 2)]);
    }

    #[test]
    fn services_that_a_server_does_not_tell_apart_are_not_missed() {
        let published = published(&[distributor(9)]);
        let with_others = |taken: u64| {
            let mut hop = server(7, 0);
            hop.ledger["services"][0]["service"] = json!("");
            hop.ledger["services"][0]["taken"] = json!({ "others": taken });
            hop
        };
        assert_eq!(said(&missing(&published, &[with_others(7)])), []);
        assert_eq!(missing(&published, &[with_others(0)]).len(), 1, "there are no others");
    }

    #[test]
    fn each_equation_is_looked_at() {
        type Change = (&'static str, u64, &'static str);
        let changes: [Change; 3] = [
            ("/services/0/streams/0/received", 5, "numbers of ab: 9 are not 8"),
            ("/services/0/taken/applied", 4, "messages received: 6 are not 5"),
            ("/services/0/clients/waiting", 1, "updates due to clients: 6 are not 5"),
        ];
        for (place, value, what) in changes {
            let mut hop = server(9, 3);
            *hop.ledger.pointer_mut(place).expect("it is there") = json!(value);
            assert_eq!(faults_within(&hop)[0].what, what);
        }
        for (place, what) in [
            ("/received", "updates received from providers: 7 are not 10"),
            ("/services/0/updates", "updates published: 7 are not 8"),
        ] {
            let mut hop = distributor(9);
            *hop.ledger.pointer_mut(place).expect("it is there") = json!(7);
            assert_eq!(said(&faults_within(&hop)).len(), 1);
            assert_eq!(faults_within(&hop)[0].what, what);
        }
    }

    #[test]
    fn what_a_relay_has_sent_its_shards_must_have() {
        let mut hop = server(9, 0);
        let shard = |last: u64| {
            let mut service = server(last, 0).ledger["services"][0].clone();
            service["streams"][0]["instance"] = json!("re");
            json!({"shard": last, "services": [service]})
        };
        hop.ledger["relay"] = json!("re");
        hop.ledger["services"][0]["to_shards"] = json!({"due": 3, "delivered": 2, "sequence": 5});
        hop.ledger["shards"] = json!([shard(5), shard(4)]);
        let published = published(std::slice::from_ref(&hop));
        let faults = missing(&published, std::slice::from_ref(&hop));
        let what =
            "shard 4: numbers 5 to 5 of re were published, and not received, and are not known to be lost";
        assert_eq!(said(&faults), [(what, 1)]);
        assert!(faults[0].is_of(&Positions::new()), "a relay is read with its shards");
        assert_eq!(said(&faults_within(&hop)), [("updates due to shards: 3 are not 2", 1)]);
    }
}
