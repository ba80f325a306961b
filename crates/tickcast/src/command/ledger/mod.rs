//! `tickcast ledger`: what became of each update, from providers to clients, as running daemons have counted it.
//!
//! Daemons are read at different moments. So no number of one is compared with one of another as if they were taken
//! at once: what was published when this began must have reached each P2PS, or be known to be lost there, in some
//! seconds; and no P2PS may have more than was published at the end. Within a daemon, or a shard, all numbers are of one
//! moment and must add up exactly.

mod balance;
mod http;
mod text;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use self::balance::{Fault, Hop};
use crate::failure::Failure;

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
    #[arg(value_name = "HOST:PORT", required = true)]
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
        text::write(&hops, &faults, &mut out)
    };
    written.map_err(Failure::Output)?;
    match faults.len() {
        0 => Ok(()),
        count => Err(Failure::Found(format!("the ledger is not balanced: {count} not explained"))),
    }
}

/// The hops as they were read last, and what is not explained.
fn read(args: &LedgerArgs) -> Result<(Vec<Hop>, Vec<Fault>), Failure> {
    let read_all = |addresses: &[String]| -> Result<Vec<Hop>, Failure> {
        let mut hops = Vec::new();
        for address in addresses {
            hops.extend(Hop::all_of(address, &http::get(address, "/ledger").map_err(Failure::Run)?));
        }
        Ok(hops)
    };
    let begin = read_all(&args.addresses)?;
    if begin.is_empty() {
        return Err(Failure::Run("no daemon has told of anything".to_owned()));
    }
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
