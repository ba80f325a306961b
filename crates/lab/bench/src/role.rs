//! What one process of a workload does.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};

use crate::end_to_end::Pacing;
use crate::lbtrm_ends::EndArgs;
use crate::options::Cpu;
use crate::update::Profile;
use crate::{
    BenchError, chain, congestion, cost, end_to_end, fan_out, images, lbtrm_ends, no_fan_out, own, pair, raw,
    storm,
};

#[derive(Debug, Args)]
pub struct RoleArgs {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    ChainSource {
        #[arg(long)]
        to: u16,
        #[arg(long)]
        pacing: Pacing,
        #[command(flatten)]
        profile: Profile,
        #[command(flatten)]
        cpu: Cpu,
    },
    ChainRelayOut {
        #[arg(long)]
        group_port: u16,
        #[command(flatten)]
        profile: Profile,
        #[command(flatten)]
        cpu: Cpu,
    },
    ChainRelayIn {
        #[arg(long)]
        group_port: u16,
        #[command(flatten)]
        profile: Profile,
        #[command(flatten)]
        cpu: Cpu,
    },
    ChainSink {
        #[arg(long)]
        from: u16,
        #[command(flatten)]
        profile: Profile,
        #[command(flatten)]
        cpu: Cpu,
    },
    Publisher(end_to_end::PublisherArgs),
    Consumer(end_to_end::ConsumerArgs),
    InProcess(end_to_end::InProcessArgs),
    ImagesAsker(end_to_end::ConsumerArgs),
    ImagesServer(images::ServerArgs),
    NoFanOutPublisher(no_fan_out::PublisherArgs),
    NoFanOutConsumer(no_fan_out::ConsumerArgs),
    NoFanOutReceiver(no_fan_out::ReceiverArgs),
    StormCrowd(storm::CrowdArgs),
    Mounts(fan_out::MountsArgs),
    SlowMounts(fan_out::SlowMountsArgs),
    #[command(name = "websocket-clients")]
    WebSocketClients(fan_out::WebSocketClientsArgs),
    NatsPublisher(fan_out::NatsPublisherArgs),
    /// Becomes another program, on the CPU that is named.
    OtherProgram {
        #[arg(long)]
        program: PathBuf,
        #[arg(last = true)]
        args: Vec<String>,
        #[command(flatten)]
        cpu: Cpu,
    },
    BareServer(fan_out::BareServerArgs),
    BareMounts(fan_out::BareMountsArgs),
    CongestionSender(congestion::EndArgs),
    CongestionReceiver(congestion::EndArgs),
    LbtrmSender(EndArgs),
    LbtrmReceiver(EndArgs),
    RawSender(EndArgs),
    RawReceiver(EndArgs),
    /// An end over the messaging library.
    Own {
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// What runs under callgrind.
    CostProgram,
    /// A bare end of a pair of hosts.
    RawEnd {
        #[arg(last = true)]
        words: Vec<String>,
    },
    RawPingpong(pair::EndArgs),
    RawStream(pair::EndArgs),
}

pub(crate) fn run(args: &RoleArgs) -> Result<(), BenchError> {
    // Whoever kills the workload does not leave its parts behind. Others end with their standard input; those of a pair
    // of hosts are started by a thread that ends before them.
    if let Role::OtherProgram { .. }
    | Role::ChainRelayOut { .. }
    | Role::ChainRelayIn { .. }
    | Role::ChainSink { .. }
    | Role::Consumer(_)
    | Role::Mounts(_)
    | Role::SlowMounts(_)
    | Role::StormCrowd(_)
    | Role::WebSocketClients(_)
    | Role::BareMounts(_) = &args.role
    {
        net::affinity::end_with_parent()?;
    }
    match &args.role {
        Role::ChainSource { to, pacing, profile, cpu } => chain::source(*to, *pacing, *profile, *cpu),
        Role::ChainRelayOut { group_port, profile, cpu } => chain::relay_out(*group_port, *profile, *cpu),
        // It passes on what comes, whatever it is.
        Role::ChainRelayIn { group_port, profile: _, cpu } => chain::relay_in(*group_port, *cpu),
        Role::ChainSink { from, profile, cpu } => chain::sink(*from, *profile, *cpu),
        Role::Publisher(args) => end_to_end::publisher(args),
        Role::Consumer(args) => end_to_end::consumer(args),
        Role::InProcess(args) => end_to_end::in_process(args),
        Role::ImagesAsker(args) => images::asker(args),
        Role::ImagesServer(args) => images::server(args),
        Role::NoFanOutPublisher(args) => no_fan_out::publisher(args),
        Role::NoFanOutConsumer(args) => no_fan_out::consumer(args),
        Role::NoFanOutReceiver(args) => no_fan_out::receiver(args),
        Role::StormCrowd(args) => storm::crowd(args),
        Role::SlowMounts(args) => fan_out::slow_mounts(args),
        Role::Mounts(args) => fan_out::mounts(args),
        Role::WebSocketClients(args) => fan_out::websocket_clients(args),
        Role::NatsPublisher(args) => fan_out::nats_publisher(args),
        Role::OtherProgram { program, args, cpu } => {
            cpu.enter()?;
            // It would count more than the settings of a daemon.
            Err(Command::new(program).args(args).env_remove("TICKCAST_LOG").exec().into())
        }
        Role::BareServer(args) => fan_out::bare_server(args),
        Role::BareMounts(args) => fan_out::bare_mounts(args),
        Role::CongestionSender(args) => congestion::sender(args),
        Role::CongestionReceiver(args) => congestion::receiver(args),
        Role::LbtrmSender(args) => lbtrm_ends::sender(args),
        Role::LbtrmReceiver(args) => lbtrm_ends::receiver(args),
        Role::RawSender(args) => lbtrm_ends::raw_sender(args),
        Role::RawReceiver(args) => lbtrm_ends::raw_receiver(args),
        Role::Own { words } => own::run(words),
        Role::CostProgram => cost::program(),
        Role::RawEnd { words } => raw::end(words),
        Role::RawPingpong(args) => raw::pingpong(args),
        Role::RawStream(args) => raw::stream(args),
    }
}
