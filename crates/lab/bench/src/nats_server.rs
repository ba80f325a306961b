//! `nats-server`, which others wrote: where it is, and one for a backbone.

use std::path::{Path, PathBuf};

use crate::BenchError;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, Scratch, free_port};

const PROGRAM: &str = "nats-server";

/// What a report says if there is none.
pub(crate) const NOT_FOUND: &str =
    "nats-server is left out: it is not in the PATH; `make peers` builds it, --nats-server names it";

/// The program that was named, else the one in the PATH.
pub(crate) fn find(named: Option<&Path>) -> Option<PathBuf> {
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join(PROGRAM)).find(|file| file.is_file())
    };
    named.map(Path::to_path_buf).or_else(in_path)
}

/// Starts it as it comes, for a backbone. Returns its port too.
pub(crate) fn start(program: &Path, cpu: Cpu) -> Result<(Process, u16), BenchError> {
    let (port, scratch) = (free_port()?, Scratch::new()?);
    let log = scratch.path().join("log").display().to_string();
    let file = scratch.write("nats.conf", &format!("listen: \"127.0.0.1:{port}\"\nlog_file: \"{log}\"\n"))?;
    let command = ["--program", &program.display().to_string(), "--", "-c", &file].map(str::to_owned);
    let server = Process::role("other-program", &[&cpu.args()[..], &command].concat())?;
    let mut server = server.with_scratch(scratch);
    server.listens(port, START_LIMIT)?;
    Ok((server, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_named_is_taken() {
        assert_eq!(find(Some(Path::new("/a/b"))), Some(PathBuf::from("/a/b")));
    }
}
