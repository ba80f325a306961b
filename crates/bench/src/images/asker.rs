use std::time::Duration;

use clap::Args;
use net::clock;
use serde_json::json;

use crate::BenchError;
use crate::end_to_end::Observer;
use crate::process::{self, answer};
use crate::role::Cpu;

#[derive(Debug, Args)]
pub(crate) struct AskerArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    own: u32,
    #[command(flatten)]
    cpu: Cpu,
}

/// Whenever it is told to, connects, asks for all items at once, and leaves when all images are there.
pub(crate) fn asker(args: &AskerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    for _ in process::commands() {
        let began = clock::monotonic();
        let observer = Observer::connect(args.port, args.own)?;
        let elapsed: Duration = clock::monotonic().since(began);
        drop(observer);
        answer(&json!({ "elapsed_ns": elapsed.as_nanos() as u64 }));
    }
    Ok(())
}
