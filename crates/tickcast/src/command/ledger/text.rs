//! The balance of each service, for people.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::Value;

use super::balance::{CLIENTS, Fault, Hop, NOT_TAKEN, PROVIDERS, TAKEN, list, number, sum, word};

pub(super) fn write(hops: &[Hop], faults: &[Fault], out: &mut impl Write) -> io::Result<()> {
    let names: BTreeSet<&str> =
        hops.iter().flat_map(Hop::services).map(|service| word(service, "service")).collect();
    for name in names {
        writeln!(out, "service {}", if name.is_empty() { "(all others)" } else { name })?;
        for hop in hops {
            for service in hop.services().iter().filter(|service| word(service, "service") == name) {
                writeln!(out, "  {}", hop.name())?;
                match hop.is_server() {
                    true => write_server(hop, service, out)?,
                    false => write_distributor(hop, service, out)?,
                }
            }
        }
    }
    if faults.is_empty() {
        return writeln!(out, "balanced");
    }
    writeln!(out, "not balanced:")?;
    for fault in faults {
        let service =
            if fault.service.is_empty() { String::new() } else { format!("service {}: ", fault.service) };
        writeln!(out, "  {}: {service}{} ({:+})", fault.hop, fault.what, fault.unexplained)?;
    }
    Ok(())
}

fn write_distributor(hop: &Hop, service: &Value, out: &mut impl Write) -> io::Result<()> {
    let providers = &service["providers"];
    let received = sum(providers, &PROVIDERS);
    writeln!(out, "    from providers  {received} updates{}", terms(&[(providers, &PROVIDERS)]))?;
    let (sequence, updates, posted) =
        (number(service, "sequence"), number(service, "updates"), number(service, "posted"));
    let posted = if posted > 0 { format!(", {posted} by posts") } else { String::new() };
    writeln!(out, "    published       numbers to {sequence}, {updates} of them updates{posted}")?;
    for peer in list(&hop.ledger, "peers").iter().filter(|peer| peer["left_behind"] == true) {
        let (name, lacks) = (word(peer, "name"), number(peer, "lacks_bytes"));
        writeln!(out, "    left behind     P2PS {name}, which lacks {lacks} bytes")?;
    }
    Ok(())
}

fn write_server(hop: &Hop, service: &Value, out: &mut impl Write) -> io::Result<()> {
    for stream in list(service, "streams") {
        let (first, last) = (number(stream, "first"), number(stream, "last"));
        let instance = word(stream, "instance");
        let followed = if stream["followed"] == true { "" } else { ", stands by" };
        writeln!(
            out,
            "    of {instance}  numbers {first} to {last}: received {}{}{followed}",
            number(stream, "received"),
            lost(stream)
        )?;
    }
    let ended = &service["streams_ended"];
    if number(ended, "numbers") > 0 {
        writeln!(out, "    of runs gone    received {}{}", number(ended, "received"), lost(ended))?;
    }
    let all = list(service, "streams").iter().chain([ended]);
    let received: u64 = all.clone().map(|stream| number(stream, "received")).sum();
    let mut parts: Vec<(&Value, &[&str])> = vec![(&service["taken"], &TAKEN)];
    parts.extend(all.map(|stream| (stream, &NOT_TAKEN[..])));
    writeln!(out, "    received        {received} messages{}", terms(&parts))?;
    let clients = &service["clients"];
    writeln!(out, "    due to clients  {} updates{}", number(clients, "due"), terms(&[(clients, &CLIENTS)]))?;
    for shard in list(&hop.ledger, "shards") {
        let known = list(shard, "services").iter();
        for known in known.filter(|known| word(known, "service") == word(service, "service")) {
            let (clients, number_of) = (&known["clients"], number(shard, "shard"));
            let due = number(clients, "due");
            writeln!(out, "      shard {number_of}       {due}{}", terms(&[(clients, &CLIENTS)]))?;
        }
    }
    Ok(())
}

/// The terms that are not zero, those of a name together.
fn terms(parts: &[(&Value, &[&str])]) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for (of, names) in parts {
        for name in *names {
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += number(of, name),
                None => sums.push((name, number(of, name))),
            }
        }
    }
    let shown: Vec<String> = sums
        .iter()
        .filter(|(_, sum)| *sum > 0)
        .map(|(name, sum)| format!("{} {sum}", name.replace('_', " ")))
        .collect();
    if shown.is_empty() { String::new() } else { format!(" = {}", shown.join(" + ")) }
}

/// What was lost of a stream, with the numbers that are known.
fn lost(stream: &Value) -> String {
    let (lost, ranges) = (number(stream, "lost"), list(stream, "lost_ranges"));
    if lost == 0 {
        return ", lost none".to_owned();
    }
    let known: u64 =
        ranges.iter().map(|range| (number(range, "last") + 1).saturating_sub(number(range, "first"))).sum();
    let range = |range: &Value| match (number(range, "first"), number(range, "last")) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first} to {last}"),
    };
    let listed: Vec<String> = ranges.iter().map(range).collect();
    let earlier = if known < lost { "..., " } else { "" };
    format!(", lost {lost}: {earlier}{}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn losses_are_named_and_terms_of_nothing_are_left_out() {
        let ranges = json!([{"first": 5, "last": 9}, {"first": 12, "last": 12}]);
        assert_eq!(lost(&json!({"lost": 6, "lost_ranges": ranges})), ", lost 6: 5 to 9, 12");
        assert_eq!(lost(&json!({"lost": 8, "lost_ranges": ranges})), ", lost 8: ..., 5 to 9, 12");
        assert_eq!(lost(&json!({"lost": 0})), ", lost none");
        let clients = json!({"delivered": 4, "conflated": 0, "in_images": 2});
        assert_eq!(terms(&[(&clients, &CLIENTS)]), " = delivered 4 + in images 2");
        assert_eq!(terms(&[(&json!({}), &CLIENTS)]), "");
    }

    #[test]
    fn a_balance_says_what_it_is_of_and_whether_it_is_one() {
        let service = json!({
            "service": "A", "streams": [{"instance": "ab", "followed": true, "first": 1, "last": 9, "received": 9}],
            "taken": {"applied": 9}, "clients": {"due": 3, "delivered": 3},
        });
        let ledger = json!({"role": "p2ps", "name": "p", "services": [service]});
        let (hop, mut out) = (Hop { address: "p:1".to_owned(), ledger }, Vec::new());
        write(std::slice::from_ref(&hop), &[], &mut out).expect("memory takes it");
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!(
            text,
            "service A\n  P2PS p at p:1\n    of ab  numbers 1 to 9: received 9, lost none\n    \
             received        9 messages = applied 9\n    due to clients  3 updates = delivered 3\nbalanced\n"
        );
    }
}
