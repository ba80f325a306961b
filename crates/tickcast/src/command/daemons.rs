//! `tickcast source-distributor`, `tickcast p2ps` and `tickcast resolver`: one role, one process.

use std::os::unix::fs::PermissionsExt;

use daemon::Status;

use crate::config::{ConfigArgs, RootConfig};
use crate::dictionary;
use crate::failure::Failure;
use crate::host::{self, Start};
use crate::role::{self, Carrier, Surroundings};

pub(super) fn source_distributor(args: &ConfigArgs) -> Result<(), Failure> {
    run("source-distributor", args, |role, ready| role::source_distributor(role, ready))
}

pub(super) fn p2ps(args: &ConfigArgs) -> Result<(), Failure> {
    run("p2ps", args, |role, ready| role::p2ps(role, ready))
}

pub(super) fn resolver(args: &ConfigArgs) -> Result<(), Failure> {
    let Start { config, registry, stop, log: _log } = Start::new(args)?;
    let _counters = host::publish_counters(&config.admin, &registry, "resolver");
    role::resolver(&config.resolver(), &registry, &stop, |status| {
        let threads = vec![("resolver", status.heartbeat())];
        host::start_admin(&config.admin, &registry, &stop, threads, move || status.read())
    })
}

type Ready<'r> = &'r mut dyn FnMut(Status) -> Result<(), Failure>;

fn run(
    name: &'static str,
    args: &ConfigArgs,
    role: impl FnOnce(&Surroundings<'_>, Ready<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Start { config, registry, stop, log: _log } = Start::new(args)?;
    warn_of_open_doors(&config);
    let dictionary = dictionary::load(&config.dictionary)?;
    let _counters = host::publish_counters(&config.admin, &registry, name);
    let surroundings = Surroundings {
        config: &config,
        dictionary,
        carrier: Carrier::Multicast,
        registry: &registry,
        stop: &stop,
    };
    role(&surroundings, &mut |status| {
        let threads = vec![(name, status.heartbeat())];
        host::start_admin(&config.admin, &registry, &stop, threads, move || status.read())
    })
}

/// What of the backbone is open to whom it should not be.
fn warn_of_open_doors(config: &RootConfig) {
    let exposure = backbone::exposure(&config.backbone_context());
    if !exposure.is_none() {
        tracing::warn!("{exposure} (docs/backbone-security.md)");
    }
    for file in config.backbone.secret_files() {
        let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
        if mode & OTHERS_READ != 0 {
            tracing::warn!(file, "everybody on this host can read a key of the backbone: chmod o-r");
        }
    }
}

/// The bit of a file's mode by which every user of the host may read it.
const OTHERS_READ: u32 = 0o004;
