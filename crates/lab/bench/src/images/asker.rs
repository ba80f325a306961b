use net::clock;
use serde_json::json;

use crate::BenchError;
use crate::end_to_end::{ConsumerArgs, Observer};
use crate::process::{self, answer};

/// Whenever it is told to, connects, asks for all items at once, and leaves when all images are there.
pub(crate) fn asker(args: &ConsumerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    for _ in process::commands() {
        let began = clock::monotonic();
        let observer = Observer::connect(args.port, args.own, args.decode, args.profile)?;
        let elapsed = clock::monotonic().since(began);
        drop(observer);
        answer(&json!({ "elapsed_ns": elapsed.as_nanos() as u64 }));
    }
    Ok(())
}
