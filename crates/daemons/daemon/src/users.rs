use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::{Complaint, Ipv4Cidr};
use counters::Registry;
use counters::table::UserLists as Counters;
use market::users::{Gate, User, Users};
use net::{FileStamp, small_file};
use serde_json::{Value, json};
use tracing::{info, warn};
use units::Nanos;

config::section! {
    /// A list of users.
    struct ListConfig {
        /// The users.
        user: Vec<UserConfig>;
    }
    check = ListConfig::check;
}

config::section! {
    /// A user that may log in. What is not said is not looked at.
    struct UserConfig {
        /// The name that logins give; `*` for every user that is not named.
        name: String, required, length 1..=255;
        /// Ids of applications that the user may log in with.
        applications: Vec<String> = [], length 0..=1_000;
        /// Positions that the user may log in at, as logins say them: 10.0.0.5/host.
        positions: Vec<String> = [], length 0..=1_000;
        /// Networks that the user's connections may come from.
        networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
    }
}

impl ListConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let mut names = HashSet::new();
        let twins = self.user.iter().enumerate().filter(|(_, user)| !names.insert(&user.name));
        let said = |at| Complaint::new([format!("user.{at}.name")], "each user is listed once");
        let complaints: Vec<Complaint> = twins.map(|(at, _)| said(at)).collect();
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    fn users(self) -> Users {
        Users::listed(self.user.into_iter().map(|user| {
            let networks = user.networks.iter().map(|network| {
                let hosts = u32::MAX.checked_shr(network.prefix_len().into()).unwrap_or(0);
                network.network()..=Ipv4Addr::from_bits(network.network().to_bits() | hosts)
            });
            let networks = networks.collect();
            (user.name, User { applications: user.applications, positions: user.positions, networks })
        }))
    }
}

/// Why a list of users cannot be used.
#[derive(Debug)]
pub enum UsersError {
    /// The file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// It is not a list of users; each fault with its place.
    List(config::Faults),
    /// Nobody is in it and nobody could log in: a mistake, such as a file that is just being written.
    Empty(PathBuf),
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsersError::Read { file, cause } => write!(f, "cannot read {}: {cause}", file.display()),
            UsersError::List(faults) => faults.fmt(f),
            UsersError::Empty(file) => write!(f, "there is no user in {}", file.display()),
        }
    }
}

impl std::error::Error for UsersError {}

impl From<UsersError> for io::Error {
    fn from(error: UsersError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
    }
}

/// A daemon's list of users: everybody, or those in a file, which is read again when it has changed.
pub struct UserList {
    file: Option<File>,
    counters: Arc<Counters>,
}

struct File {
    path: PathBuf,
    /// Of the file that was read last, whether it could be used or not.
    read: Option<FileStamp>,
    /// At the last look. A file that was changed since is perhaps being written.
    seen: Option<FileStamp>,
    look_at: Nanos,
}

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(2);
/// Longest list: no text of a configuration may be longer.
const BYTES_MAX: u64 = config::TEXT_BYTES_MAX as u64;

impl UserList {
    /// The list in a file, or everybody without one. `role` is the label of what is counted.
    ///
    /// # Errors
    /// The file cannot be used; the error names it.
    pub fn load(
        file: Option<&str>,
        registry: &Registry,
        role: &'static str,
    ) -> Result<(UserList, Users), UsersError> {
        let counters = Arc::new(Counters::default());
        registry.register(&[("role", role)], counters.clone());
        let Some(path) = file.map(PathBuf::from) else {
            return Ok((UserList { file: None, counters }, Users::everybody()));
        };
        let read = FileStamp::of(&path);
        let users = read_users(&path)?;
        count_listed(&counters, &users);
        let file = Some(File { path, read, seen: read, look_at: Nanos::ZERO });
        Ok((UserList { file, counters }, users))
    }

    /// The users that may log in from now on, if the file has changed and stayed as it is from one look to
    /// the next. A list that cannot be used is logged, and the one before stays in force.
    pub fn refresh(&mut self, now: Nanos) -> Option<Users> {
        let file = self.file.as_mut().filter(|file| now >= file.look_at)?;
        file.look_at = now + INTERVAL;
        let stamp = FileStamp::of(&file.path);
        let is_settled = std::mem::replace(&mut file.seen, stamp) == stamp;
        if !is_settled || stamp == file.read {
            return None;
        }
        file.read = stamp;
        match read_users(&file.path) {
            Ok(users) => {
                self.counters.reloads.inc();
                count_listed(&self.counters, &users);
                info!(file = %file.path.display(), "list of users was read again");
                Some(users)
            }
            Err(error) => {
                self.counters.reload_failures.inc();
                warn!(%error, "the list of users in use is kept, the new one is no good");
                None
            }
        }
    }

    /// When [`UserList::refresh`] is worth a call.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.file.as_ref().map_or(Nanos::NEVER, |file| file.look_at)
    }
}

fn count_listed(counters: &Counters, users: &Users) {
    counters.listed.set(users.listed_count().unwrap_or(0) as u64);
}

fn read_users(path: &Path) -> Result<Users, UsersError> {
    let text = small_file::read(path, BYTES_MAX)
        .map_err(|cause| UsersError::Read { file: path.to_owned(), cause })?;
    let loader = config::Loader::new::<ListConfig>().file(path.display().to_string(), text);
    let list = loader.load().map_err(UsersError::List)?.value;
    if list.user.is_empty() { Err(UsersError::Empty(path.to_owned())) } else { Ok(list.users()) }
}

/// What a status page shows of who may log in.
#[must_use]
pub fn describe_users(gate: &Gate) -> Value {
    let denied = gate.denied().map(|(credentials, why)| {
        json!({
            "user": credentials.user, "application_id": credentials.application_id, "position": credentials.position,
            "address": credentials.address.map(|address| address.to_string()), "reason": why.to_string(),
        })
    });
    json!({"listed": gate.users().listed_count(), "denied": denied.collect::<Vec<Value>>()})
}

#[cfg(test)]
mod tests {
    use market::users::{Credentials, Denial};

    use super::*;

    /// A file of this test's own, which is gone when it ends.
    struct Scratch(PathBuf, #[expect(dead_code, reason = "removed at the end")] testkit::Folder);

    impl Scratch {
        fn new(name: &str, text: &str) -> Scratch {
            let folder = testkit::Folder::new();
            Scratch(folder.put(name, text), folder)
        }

        fn path(&self) -> &str {
            self.0.to_str().expect("a plain name")
        }
    }

    fn load(file: &Scratch) -> Result<(UserList, Users), UsersError> {
        UserList::load(Some(file.path()), &Registry::default(), "test")
    }

    fn credentials(user: &str) -> Credentials {
        let address = Some(Ipv4Addr::new(10, 1, 255, 255));
        let (application_id, position) = ("256".to_owned(), "here".to_owned());
        Credentials { user: user.to_owned(), application_id, position, address }
    }

    #[test]
    fn the_declarations_are_sound() {
        assert_eq!(config::audit::<ListConfig>(), [""; 0]);
    }

    #[test]
    fn without_a_file_everybody_may_log_in_and_nothing_is_looked_at() {
        let (mut list, users) = UserList::load(None, &Registry::default(), "test").expect("nothing to fail");
        assert_eq!((users, list.next_wakeup()), (Users::everybody(), Nanos::NEVER));
        assert_eq!(list.refresh(Nanos(1)), None);
    }

    #[test]
    fn the_list_of_the_page_about_it_can_be_used() {
        let page = include_str!("../../../../docs/users.md");
        let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a list");
        let file = Scratch::new("page", text);
        let (list, users) = load(&file).expect("it is good");
        assert_eq!(list.counters.listed.get(), 3);
        assert_eq!(users.judge(&credentials("trader1")), Ok(()));
        assert_eq!(users.judge(&credentials("trader2")), Err(Denial::Application));
        assert_eq!(users.judge(&credentials("anybody")), Err(Denial::Address));
    }

    #[test]
    fn networks_are_as_wide_as_they_say() {
        let file = Scratch::new("networks", "[[user]]\nname = \"a\"\nnetworks = [\"10.1.0.0/16\"]\n");
        let users = load(&file).expect("it is good").1;
        assert_eq!(users.judge(&credentials("a")), Ok(()));
        let outside = Credentials { address: Some(Ipv4Addr::new(10, 2, 0, 0)), ..credentials("a") };
        assert_eq!(users.judge(&outside), Err(Denial::Address));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_place() {
        for (text, said) in [
            ("", "there is no user"),
            ("[[user]]\nname = \"a\"\n[[user]]\nname = \"a\"\n", "each user is listed once"),
            ("[[user]]\nnme = \"a\"\n", "did you mean `name`"),
            ("[[user]]\nname = \"a\"\nnetworks = [\"10.1.0.1/16\"]\n", "10.1.0.0/16"),
        ] {
            let file = Scratch::new("bad", text);
            let error = load(&file).err().expect("it is no good").to_string();
            assert!(error.contains(said), "{error}");
        }
        // It would be read on a thread that serves others: a pipe or a device could keep that.
        let device = UserList::load(Some("/dev/zero"), &Registry::default(), "test");
        assert!(device.err().expect("no file").to_string().contains("no regular file"));
        let missing = UserList::load(Some("/nonexistent"), &Registry::default(), "test");
        assert!(missing.err().expect("it is not there").to_string().contains("/nonexistent"));
    }

    #[test]
    fn a_changed_file_is_read_when_it_has_stayed_as_it_is_and_a_bad_one_is_not_put_in_force() {
        let file = Scratch::new("changed", "[[user]]\nname = \"a\"\n");
        let (mut list, _) = load(&file).expect("it is good");
        let mut now = Nanos(1);
        let mut look = |list: &mut UserList| {
            now += INTERVAL;
            list.refresh(now)
        };
        assert_eq!(look(&mut list), None, "nothing has changed");
        let write = |text| std::fs::write(&file.0, text).expect("it is writable");
        write("[[user]]\nname = \"a\"\n[[user]]\nname = \"b\"\n");
        assert_eq!(look(&mut list), None, "it may be in the middle of being written");
        let users = look(&mut list).expect("it has settled");
        assert_eq!((users.listed_count(), users.judge(&credentials("b"))), (Some(2), Ok(())));
        write("[[user]]\n");
        assert_eq!((look(&mut list), look(&mut list), look(&mut list)), (None, None, None));
        let counters = &list.counters;
        let counts = (counters.reloads.get(), counters.reload_failures.get(), counters.listed.get());
        assert_eq!(counts, (1, 1, 2), "told once, and the list stays");
    }
}
