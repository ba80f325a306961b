//! Each daemon is asked on a thread of its own: one that is slow or gone holds up neither the screen nor the others.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::app::{Subject, Target};
use super::look::{self, Look};
use crate::admin_client::{Answer, NoAnswer, encoded};

/// What the screen wants of a daemon.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Open(Subject),
    Disconnect(Target),
    Filter(String),
}

/// What a daemon's thread has to say.
#[derive(Debug)]
pub(super) enum News {
    Look(Result<Look, String>),
    Details(Subject, Vec<String>),
    /// What became of a disconnect.
    Said(String),
}

/// Asks one daemon: a method and a path.
pub(super) type Asker<'a> = &'a mut dyn FnMut(&str, &str) -> Result<Answer, NoAnswer>;

/// How a daemon is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    pub(super) limit: usize,
    pub(super) filter: String,
    /// Which roles there are, once that is known.
    roles: Option<Vec<String>>,
    /// An older daemon does not know its busiest items.
    lacks_busiest: bool,
}

impl Questions {
    pub(super) fn new(limit: usize, filter: &str) -> Questions {
        Questions { limit, filter: filter.to_owned(), ..Questions::default() }
    }

    fn path(&self) -> String {
        let Some(roles) = &self.roles else { return "/status?limit=1".to_owned() };
        let has = |role: &str| roles.iter().any(|known| known == role);
        let busiest = if self.lacks_busiest { "" } else { "&busiest=32" };
        let filter = if self.filter.is_empty() { String::new() } else { format!("&{}", self.filter) };
        match () {
            () if has("p2ps") => format!("/status?sort=backlog&limit={}{busiest}{filter}", self.limit),
            () if has("source-distributor") => format!("/status?limit=1{busiest}"),
            () if has("resolver") => "/status?limit=1".to_owned(),
            () => "/status".to_owned(),
        }
    }

    /// Asks for everything that is shown of a daemon.
    pub(super) fn look(&mut self, ask: Asker<'_>) -> Result<Look, String> {
        if self.roles.is_none() {
            // What a daemon is decides what it can be asked; a feed takes no parameter at all.
            let first = told(ask, "/status?limit=1").or_else(|refusal| match refusal {
                Refusal::Refused(_) => told(ask, "/status"),
                other => Err(other),
            });
            self.roles = Some(roles_of(&look_of(first)?));
        }
        let answer = match told(ask, &self.path()) {
            Err(Refusal::Refused(why))
                if !self.lacks_busiest && why.contains("\"busiest\" is no parameter") =>
            {
                self.lacks_busiest = true;
                told(ask, &self.path())
            }
            answer => answer,
        };
        let look = look_of(answer);
        // Another daemon may be at that address later.
        self.roles = look.as_ref().ok().map(roles_of);
        look
    }
}

fn roles_of(look: &Look) -> Vec<String> {
    look.roles.iter().map(|role| role.role.clone()).collect()
}

/// Why there is no description.
enum Refusal {
    /// The question was not understood.
    Refused(String),
    Other(String),
}

fn look_of(answer: Result<Vec<u8>, Refusal>) -> Result<Look, String> {
    match answer {
        Ok(body) => Look::parse(&body),
        Err(Refusal::Refused(why) | Refusal::Other(why)) => Err(why),
    }
}

/// The body of an answer that is good.
fn told(ask: Asker<'_>, path: &str) -> Result<Vec<u8>, Refusal> {
    let answer = ask("GET", path).map_err(|error| Refusal::Other(error.to_string()))?;
    match answer.status {
        200 => Ok(answer.body),
        400 => Err(Refusal::Refused(said(&answer))),
        404 => Err(Refusal::Other("it has no /status: no admin port of Tickcast".to_owned())),
        status => Err(Refusal::Other(format!("{} (HTTP status {status})", said(&answer)))),
    }
}

/// What an answer says in words.
fn said(answer: &Answer) -> String {
    look::clean(String::from_utf8_lossy(&answer.body).trim())
}

/// The lines of something that is opened.
pub(super) fn details(subject: &Subject, ask: Asker<'_>) -> Vec<String> {
    let body = match told(ask, &subject.path()) {
        Ok(body) => body,
        Err(Refusal::Refused(why)) if why.contains("is no parameter") => {
            return vec![format!("this daemon does not show single items: open it at a P2PS ({why})")];
        }
        Err(Refusal::Refused(why) | Refusal::Other(why)) => return vec![why],
    };
    let Ok(document) = serde_json::from_slice::<Value>(&body) else {
        return vec!["its /status is no JSON".to_owned()];
    };
    let found = look::find(&document, |role| match subject {
        Subject::Client(id) => {
            role["clients"].as_array()?.iter().find(|client| client["id"].as_u64() == Some(*id))
        }
        Subject::Item { .. } => role.get("item").filter(|item| item.is_object()),
    });
    match (found, subject) {
        (Some(found), _) => look::lines(found),
        (None, Subject::Client(_)) => vec!["the client is gone".to_owned()],
        (None, Subject::Item { .. }) => vec!["nobody watches it there now".to_owned()],
    }
}

/// Disconnects a client; what is said of that.
pub(super) fn disconnect(target: &Target, ask: Asker<'_>) -> String {
    let path = format!("/disconnect?client={}&peer={}", target.id, encoded(&target.peer));
    match ask("POST", &path) {
        Ok(answer) if answer.status == 200 => format!("{} of {} is disconnected", target.user, target.peer),
        Ok(answer) if answer.status == 404 && answer.body.is_empty() => {
            "it was not disconnected: this daemon is of a version that cannot".to_owned()
        }
        Ok(answer) => format!("it was not disconnected: {}", said(&answer)),
        Err(error) => format!("it is not known whether it was disconnected: {error}"),
    }
}

/// Asks again and again, and fulfils wishes, until nobody listens.
pub(super) fn run(
    place: usize,
    mut questions: Questions,
    interval: Duration,
    ask: Asker<'_>,
    (wishes, news): (&Receiver<Wish>, &Sender<(usize, News)>),
) {
    let mut due = Instant::now();
    loop {
        let wish = wishes.recv_timeout(due.saturating_duration_since(Instant::now()));
        let told = match wish {
            Ok(Wish::Open(subject)) => {
                let lines = details(&subject, ask);
                News::Details(subject, lines)
            }
            Ok(Wish::Disconnect(target)) => {
                let said = disconnect(&target, ask);
                due = Instant::now();
                News::Said(said)
            }
            Ok(Wish::Filter(filter)) => {
                (questions.filter, due) = (filter, Instant::now());
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                due = Instant::now() + interval;
                News::Look(questions.look(ask))
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if news.send((place, told)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: &str) -> Result<Answer, NoAnswer> {
        Ok(Answer { status, body: body.as_bytes().to_vec() })
    }

    /// Answers one question after the other; returns the paths.
    fn played(answers: Vec<(u16, String)>, mut play: impl FnMut(Asker<'_>)) -> Vec<String> {
        let (mut asked, mut answers) = (Vec::new(), answers.into_iter());
        play(&mut |method, path| {
            asked.push(format!("{method} {path}"));
            let (status, body) = answers.next().expect("an answer is left");
            answer(status, &body)
        });
        assert!(answers.next().is_none(), "all are asked for: {asked:?}");
        asked
    }

    fn of(role: &str) -> String {
        json!({"role": role}).to_string()
    }

    #[test]
    fn a_p2ps_is_asked_for_a_page_of_its_slowest_clients_never_for_all() {
        let mut questions = Questions::new(50, "user=desk*");
        let answers = vec![(200, of("p2ps")); 3];
        let asked = played(answers, |ask| {
            questions.look(ask).expect("it answers");
            questions.look(ask).expect("it answers");
        });
        let page = "GET /status?sort=backlog&limit=50&busiest=32&user=desk*";
        assert_eq!(asked, ["GET /status?limit=1", page, page]);
    }

    #[test]
    fn each_daemon_is_asked_what_it_understands() {
        let asked = |answers: Vec<(u16, String)>| {
            played(answers, |ask| drop(Questions::new(50, "user=x").look(ask).expect("it answers")))
        };
        let refused = (400, "\"limit\" is no parameter here: there are none\n".to_owned());
        assert_eq!(
            asked(vec![refused, (200, of("feed")), (200, of("feed"))]),
            ["GET /status?limit=1", "GET /status", "GET /status"]
        );
        assert_eq!(asked(vec![(200, of("resolver")); 2])[1], "GET /status?limit=1");
        let older = (400, "\"busiest\" is no parameter here: after, limit".to_owned());
        let asked = asked(vec![(200, of("source-distributor")), older, (200, of("source-distributor"))]);
        assert_eq!(asked[1..], ["GET /status?limit=1&busiest=32", "GET /status?limit=1"]);
    }

    #[test]
    fn why_there_is_no_description_is_said_and_the_next_question_begins_anew() {
        let mut questions = Questions::new(50, "");
        let mut said = Vec::new();
        let answers = vec![
            (503, "the daemon is busy: ask again\n".to_owned()),
            (404, String::new()),
            (200, of("p2ps")),
            (400, "`user` must be 1 to 255 bytes".to_owned()),
            (200, of("feed")),
            (200, "{}".to_owned()),
        ];
        played(answers, |ask| said.extend((0..4).map(|_| questions.look(ask).expect_err("no description"))));
        let expected = [
            "the daemon is busy: ask again (HTTP status 503)",
            "it has no /status: no admin port of Tickcast",
            "`user` must be 1 to 255 bytes",
            "its /status is not that of a daemon of Tickcast",
        ];
        assert_eq!(said, expected);
    }

    fn target() -> Target {
        let (user, peer) = ("me".to_owned(), "10.0.0.5:4000".to_owned());
        Target { daemon: 0, address: "a:1".to_owned(), id: 7, user, peer }
    }

    #[test]
    fn what_is_opened_is_found_alone_and_in_a_demo() {
        let client = json!({"id": 7, "user": "me"});
        let (alone, demo) =
            (json!({"clients": [client]}), json!({"process": {}, "p2ps": {"clients": [client]}}));
        for document in [alone, demo] {
            let mut lines = Vec::new();
            played(vec![(200, document.to_string())], |ask| lines = details(&Subject::Client(7), ask));
            assert!(
                lines.len() == 2 && lines[1].starts_with("user ") && lines[1].ends_with(" me"),
                "{lines:?}"
            );
        }
        let mut lines = Vec::new();
        played(vec![(200, json!({"clients": []}).to_string())], |ask| {
            lines = details(&Subject::Client(7), ask)
        });
        assert_eq!(lines, ["the client is gone"]);
        let item = Subject::Item { service: "S".to_owned(), domain: 6, name: "X".to_owned() };
        played(vec![(200, json!({"item": null}).to_string())], |ask| lines = details(&item, ask));
        assert_eq!(lines, ["nobody watches it there now"]);
        played(vec![(400, "\"item\" is no parameter here: limit".to_owned())], |ask| {
            lines = details(&item, ask)
        });
        assert!(lines[0].starts_with("this daemon does not show single items"));
    }

    #[test]
    fn a_disconnect_names_the_connection_and_says_what_came_of_it() {
        let mut said = Vec::new();
        let mut asked = Vec::new();
        for (status, body) in [(200, "{}"), (403, "admin.disconnects = true allows it\n"), (404, "")] {
            asked = played(vec![(status, body.to_owned())], |ask| said.push(disconnect(&target(), ask)));
        }
        assert_eq!(asked, ["POST /disconnect?client=7&peer=10.0.0.5:4000"]);
        let expected = [
            "me of 10.0.0.5:4000 is disconnected",
            "it was not disconnected: admin.disconnects = true allows it",
            "it was not disconnected: this daemon is of a version that cannot",
        ];
        assert_eq!(said, expected);
        let lost = disconnect(&target(), &mut |_, _| Err(NoAnswer::Late));
        assert_eq!(lost, "it is not known whether it was disconnected: no answer within 5 s");
    }

    #[test]
    fn a_thread_asks_fulfils_wishes_and_ends_with_its_screen() {
        let ((wish, wishes), (news, told)) = (mpsc::channel(), mpsc::channel());
        wish.send(Wish::Disconnect(target())).expect("it is there");
        wish.send(Wish::Open(Subject::Client(7))).expect("it is there");
        let thread = std::thread::spawn(move || {
            let mut ask = |_: &str, _: &str| answer(200, &of("p2ps"));
            run(3, Questions::new(1, ""), Duration::from_secs(3600), &mut ask, (&wishes, &news));
        });
        let kinds: Vec<String> =
            told.iter().take(3).map(|(place, news)| format!("{place} {news:?}")).collect();
        assert!(kinds[0].starts_with("3 Said") && kinds[1].starts_with("3 Details"), "{kinds:?}");
        assert!(kinds[2].starts_with("3 Look(Ok"), "{kinds:?}");
        drop(wish);
        thread.join().expect("it ends");
    }
}
