use super::HostPort;

config::section! {
    /// Warm standby: further servers for the same data, each with a session of its own, one of which takes
    /// over at once when the active one is lost.
    pub struct WarmStandbyConfig {
        /// The servers beside the one that the consumer has without them, `[[server]]` each, in the order in
        /// which they take over.
        #[key = "server"]
        servers: Vec<StandbyServerConfig>;
        /// What is lost together.
        mode: StandbyMode = StandbyMode::Login;
        /// Service-based: services for which the first server is the preferred one; it is for all that no
        /// server names.
        services: Vec<String> = [], length 0..=1024;
        /// Whether the preferred server (login-based: the first one) becomes the active one again as soon as
        /// it has the items. If not, it stays a standby.
        returns: bool = false;
        /// Whether servers that announce standby support are told their role. A standby that is told sends no
        /// data, which saves the bandwidth; in return its items are suspect from the switch until their
        /// images have come. If not, every standby sends everything, and the switch costs no round trip.
        tells_roles: bool = false;
        /// How long an image of a new active server is waited for that is older, by its sequence number, than
        /// what the application has seen. 0: not at all.
        catch_up_ms: u32 = 500, range 0..=60_000;
    }
}

config::section! {
    /// A server that stands by.
    pub struct StandbyServerConfig {
        /// Where it is; several are tried in turn.
        hosts: Vec<HostPort>, required, length 1..=64;
        /// Service-based: services for which it is the preferred one.
        services: Vec<String> = [], length 0..=1024;
    }
}

config::choice! {
    /// What of a server is lost together.
    pub enum StandbyMode {
        /// All of it, with its connection or login: one server is the active one for everything.
        Login = "login",
        /// Each service by itself, also when it goes down behind a connection that stands: each has its
        /// active server.
        Service = "service",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_sound() {
        assert_eq!(config::audit::<WarmStandbyConfig>(), Vec::<String>::new());
    }

    #[test]
    fn a_file_lists_servers_in_order() {
        let file = "mode = \"service\"\n[[server]]\nhosts = [\"b:1\"]\nservices = [\"S\"]\n\
                    [[server]]\nhosts = [\"c:1\", \"d:1\"]\n";
        let loaded =
            config::Loader::new::<WarmStandbyConfig>().file("c.toml", file).load().expect("legal").value;
        assert_eq!(loaded.mode, StandbyMode::Service);
        assert_eq!(loaded.servers[0].services, ["S"]);
        assert_eq!(loaded.servers[1].hosts, [HostPort::new("c", 1), HostPort::new("d", 1)]);
        assert!(config::Loader::new::<WarmStandbyConfig>().file("c.toml", "[[server]]\n").load().is_err());
    }
}
