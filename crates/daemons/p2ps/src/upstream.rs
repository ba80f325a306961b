//! A server that takes its data from other servers, by a source distributor in the same process.

use daemon::Described;

/// The description of a server and of the source distributor that feeds it, `upstream` of its own document.
#[must_use]
pub fn describe_with_upstream(server: Described, upstream: Described) -> Described {
    let threads = [upstream.threads(), server.threads()].concat();
    let (orders, traced, ledger, before) = (server.clone(), server.clone(), server.clone(), upstream.clone());
    let described = Described::new(
        threads,
        // A question is about the server's clients.
        move |query| {
            let mut document = server.ask(query)?;
            if document.is_object() {
                document["upstream"] = upstream.ask("").unwrap_or_default();
            }
            Ok(document)
        },
        move |order| orders.order(order),
    );
    let described = described.and_ledger(move || ledger.ledger()).and_ledger_of(&before);
    described.and_trace(move |query| traced.trace(query))
}
