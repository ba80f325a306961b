//! `tickcast ledger`: what became of each update, from providers to clients, as running daemons have counted it.
//!
//! Daemons are read at different moments. So no number of one is compared with one of another as if they were taken
//! at once: what was published when this began must have reached each P2PS, or be known to be lost there, in some
//! seconds; and no P2PS may have more than was published at the end. Within a daemon, or a shard, all numbers are of one
//! moment and must add up exactly.

mod balance;
mod text;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::balance::{Fault, Hop};
use crate::admin_client;
use crate::failure::Failure;
use crate::terminal::shown;

/// Which daemons.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast ledger sd1:14081 p2ps1:14082 p2ps2:14082    from the source distributor to the clients of two P2PSs
  tickcast ledger localhost:14080                      of a demo, which is both
  tickcast ledger p2ps1:14082 --json | jq .faults      as a line of JSON
  tickcast ledger sd1:14081 p2ps1:14082 --wait 30      a backbone on which much is on its way

Addresses are those of admin ports (admin.port). Give all source distributors of the services that you ask about, and the
P2PSs whose clients matter to you.

Each service is one balance: what providers sent, what was published, received and lost, and what became of each update
that a client was due. \"balanced\" says that each number is explained: losses too, with the numbers that were lost. Else
the lines at the end name the hop and what is not explained. docs/guides/ledger.md explains each line.

Exit status: 0 balanced; 1 a daemon cannot be asked; 2 wrong usage; 3 not balanced.")]
pub(crate) struct LedgerArgs {
    /// Admin port of a source distributor or a P2PS.
    #[arg(value_name = "HOST:PORT", required = true, value_parser = admin_client::address)]
    addresses: Vec<String>,
    /// So many seconds what has been published may be on its way to a P2PS before it counts as not explained.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=3_600))]
    wait: u32,
    /// As a line of JSON.
    #[arg(long)]
    json: bool,
}

/// Between two looks whether everything has arrived.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &LedgerArgs) -> Result<(), Failure> {
    let (hops, faults) = read(args)?;
    let mut out = io::stdout().lock();
    let written = if args.json {
        let hops: Vec<_> = hops.iter().map(Hop::to_json).collect();
        let listed: Vec<_> = faults.iter().map(Fault::to_json).collect();
        writeln!(out, "{}", json!({"balanced": faults.is_empty(), "faults": listed, "hops": hops}))
    } else {
        let mut lines = Vec::new();
        text::write(&hops, &faults, &mut lines).map_err(Failure::Output)?;
        // Names are others' choice.
        let lines = String::from_utf8_lossy(&lines);
        out.write_all(
            lines.chars().map(|c| if c == '\n' { c } else { shown(c) }).collect::<String>().as_bytes(),
        )
    };
    written.map_err(Failure::Output)?;
    match faults.len() {
        0 => Ok(()),
        count => Err(Failure::Found(format!("the ledger is not balanced: {count} not explained"))),
    }
}

/// The ledger of a daemon. The error names its address, and what it has said.
fn ledger_of(address: &str) -> Result<Value, String> {
    let named = |error: &dyn std::fmt::Display| format!("http://{address}/ledger: {error}");
    let answer = admin_client::ask(address, "GET", "/ledger").map_err(|error| named(&error))?;
    match answer.status {
        200 => serde_json::from_slice(&answer.body).map_err(|error| named(&error)),
        404 => Err(named(&"404, an admin port without a ledger")),
        status => {
            let said: String =
                String::from_utf8_lossy(&answer.body).trim().chars().take(200).map(shown).collect();
            Err(named(&format!("{status}, {said}")))
        }
    }
}

/// The hops as they were read last, and what is not explained.
fn read(args: &LedgerArgs) -> Result<(Vec<Hop>, Vec<Fault>), Failure> {
    let read_all = |addresses: &[String]| -> Result<Vec<Hop>, Failure> {
        let mut hops = Vec::new();
        for address in addresses {
            let told = Hop::all_of(address, &ledger_of(address).map_err(Failure::Run)?);
            if told.is_empty() {
                return Err(Failure::Run(format!(
                    "http://{address}/ledger: there is no ledger in its answer"
                )));
            }
            hops.extend(told);
        }
        Ok(hops)
    };
    let begin = read_all(&args.addresses)?;
    let published = balance::published(&begin);
    let receiving: Vec<String> = args
        .addresses
        .iter()
        .filter(|a| begin.iter().any(|hop| hop.is_server() && hop.address == **a))
        .cloned()
        .collect();
    let until = Instant::now() + Duration::from_secs(args.wait.into());
    let (servers, missing) = loop {
        let servers: Vec<Hop> = read_all(&receiving)?.into_iter().filter(Hop::is_server).collect();
        let missing = balance::missing(&published, &servers);
        if missing.is_empty() || Instant::now() >= until {
            break (servers, missing);
        }
        std::thread::sleep(LOOK_AGAIN);
    };
    let publishing: Vec<String> = args
        .addresses
        .iter()
        .filter(|a| begin.iter().any(|hop| !hop.is_server() && hop.address == **a))
        .cloned()
        .collect();
    let mut hops: Vec<Hop> = read_all(&publishing)?.into_iter().filter(|hop| !hop.is_server()).collect();
    let published_at_end = balance::published(&hops);
    hops.extend(servers);
    let mut faults: Vec<Fault> = hops.iter().flat_map(balance::faults_within).collect();
    // One that was started anew meanwhile has other numbers, and its earlier ones end with it.
    faults.extend(missing.into_iter().filter(|missing| missing.is_of(&published_at_end)));
    faults.extend(balance::invented(&published_at_end, &hops));
    Ok((hops, faults))
}
