//! Where an item stands with the source distributor: one state, and a table of what each input does in it.
//!
//! [`next`] is the table. `docs/item-states.md` prints it, and a test compares the two. A state holds what is known in
//! it and nothing else, so that nothing of one instance is left when the item comes from another one.

use super::held::{Held, HeldMessage};
use crate::backbone::Kind;

/// The states, without what is known in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is no instance to ask, or nobody has asked yet.
    Idle,
    /// It is to be asked for when its turn comes. The instance does not know that it is wanted.
    Queued,
    /// The same, and the instance knows that it is wanted: another image is needed.
    Requeued,
    /// It is asked for, and the image is on its way.
    Requested,
    /// It is asked for, and the instance has said that the image has to wait for the provider.
    Awaited,
    /// The image is here, and every update since.
    Live,
    /// What is here is newer than what the instance has, which is suspect: it stays until the instance says more.
    Ahead,
}

/// What comes about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// An image is wanted: somebody watches the item, the image is overdue, or the one that came is of no use.
    Want,
    /// Its turn has come and there is an instance to ask.
    Turn,
    /// Its turn has come and there is no instance to ask.
    TurnInVain,
    /// The instance says that the image has to wait for the provider.
    Wait,
    /// A whole image that has all that is needed.
    Image,
    /// The same, but suspect and older by its number than what is here.
    OlderImage,
    /// A stream message that is not in the image.
    Message,
    /// A stream message that is in the image already.
    OldMessage,
    /// Something about it was lost on the way here, or could not be used.
    Lack,
    /// The stream says that nothing of the service is good any more.
    Down,
    /// The same, in front of the image.
    OldDown,
    /// The instance is lost.
    Lost,
}

/// What has to be done about an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing.
    Pass,
    /// Put the item into the queue.
    Enqueue,
    /// Ask the instance, and say that the item is wanted.
    Register,
    /// Ask the instance again.
    AskAgain,
    /// Show the image to the watchers, then apply what was held.
    Show,
    /// Keep the image that is here, and mark the item suspect.
    Keep,
    /// Apply the message, and pass it on.
    Apply,
    /// Hold the message until the image is here.
    Hold,
    /// Drop the message. An image that is older than it is of no use.
    Note,
    /// Drop the message as one to note, and put the item into the queue.
    Renew,
    /// Drop the message, and count it as stale.
    DropStale,
    /// Mark the item suspect, and put it into the queue.
    Suspect,
    /// Mark the item suspect.
    Doubt,
}

/// The table: the state that follows, and what has to be done.
#[inline]
pub(super) const fn next(phase: Phase, input: Input) -> (Phase, Act) {
    use Phase::{Ahead, Awaited, Idle, Live, Queued, Requested, Requeued};
    match (input, phase) {
        (Input::Want, Idle) => (Queued, Act::Enqueue),
        (Input::Want, Queued | Requeued) => (phase, Act::Pass),
        (Input::Want, Requested | Awaited | Live | Ahead) => (Requeued, Act::Enqueue),

        (Input::Turn, Queued) => (Requested, Act::Register),
        (Input::Turn, Requeued) => (Requested, Act::AskAgain),
        (Input::Turn, Idle | Requested | Awaited | Live | Ahead) => (phase, Act::Pass),

        (Input::TurnInVain, Queued | Requeued) => (Idle, Act::Pass),
        (Input::TurnInVain, Idle | Requested | Awaited | Live | Ahead) => (phase, Act::Pass),

        (Input::Wait, Requested) => (Awaited, Act::Pass),
        (Input::Wait, Idle | Queued | Requeued | Awaited | Live | Ahead) => (phase, Act::Pass),

        (Input::Image, Requested | Awaited) => (Live, Act::Show),
        (Input::OlderImage, Requested | Awaited | Live) => (Ahead, Act::Keep),
        (Input::OlderImage, Idle | Queued | Requeued | Ahead)
        | (Input::Image, Idle | Queued | Requeued | Live | Ahead) => (phase, Act::Pass),

        (Input::Message, Idle) => (Idle, Act::Pass),
        (Input::Message | Input::OldMessage, Queued | Requeued) => (phase, Act::Note),
        (Input::Message | Input::OldMessage, Requested | Awaited) => (phase, Act::Hold),
        (Input::Message | Input::OldMessage, Ahead) => (Requeued, Act::Renew),
        (Input::Message, Live) => (Live, Act::Apply),
        (Input::OldMessage, Idle) => (Idle, Act::Pass),
        (Input::OldMessage, Live) => (Live, Act::DropStale),

        (Input::Lack, Idle | Queued | Requeued | Awaited) => (phase, Act::Pass),
        (Input::Lack, Requested) => (Requested, Act::Note),
        (Input::Lack, Live | Ahead) => (Requeued, Act::Suspect),

        (Input::Down | Input::OldDown, Idle) => (Idle, Act::Pass),
        (Input::Down | Input::OldDown, Queued | Requeued | Requested | Awaited | Ahead) => (phase, Act::Note),
        (Input::Down, Live) => (Live, Act::Doubt),
        (Input::OldDown, Live) => (Live, Act::Pass),

        (Input::Lost, _) => (Idle, Act::Pass),
    }
}

/// What is known while there is no image that can be used.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    /// An image taken before this number lacks something.
    needs_after: u64,
    /// The position of the image that is being received, from its first part to its last.
    incoming: Option<u64>,
    /// Messages that wait for the image.
    held: Held,
}

/// A state, with what is known in it: in a box where that is much, since nearly all items are [`Life::Live`].
#[derive(Debug, Default)]
pub(super) enum Life {
    /// See [`Phase::Idle`].
    #[default]
    Idle,
    /// See [`Phase::Queued`].
    Queued(Box<Fetch>),
    /// See [`Phase::Requeued`].
    Requeued(Box<Fetch>),
    /// See [`Phase::Requested`].
    Requested(Box<Fetch>),
    /// See [`Phase::Awaited`].
    Awaited(Box<Fetch>),
    /// See [`Phase::Live`].
    Live {
        /// Stream messages up to this number are in the image.
        image_after: u64,
    },
    /// See [`Phase::Ahead`].
    Ahead(Box<Fetch>),
}

impl Life {
    /// The state, without what is known in it.
    #[inline]
    pub(super) const fn phase(&self) -> Phase {
        match self {
            Life::Idle => Phase::Idle,
            Life::Queued(_) => Phase::Queued,
            Life::Requeued(_) => Phase::Requeued,
            Life::Requested(_) => Phase::Requested,
            Life::Awaited(_) => Phase::Awaited,
            Life::Live { .. } => Phase::Live,
            Life::Ahead(_) => Phase::Ahead,
        }
    }

    /// Takes an input that has no number of its own.
    pub(super) fn on(&mut self, input: Input) -> Act {
        let (phase, act) = next(self.phase(), input);
        self.enter(phase, 0);
        act
    }

    /// A stream message has come.
    #[inline]
    pub(super) fn on_message(&mut self, sequence: u64) -> Act {
        self.on_numbered(sequence, (Input::Message, Input::OldMessage))
    }

    /// Something of the stream with a number has come: one input, and another one where the image here has it.
    #[inline]
    fn on_numbered(&mut self, sequence: u64, (new, old): (Input, Input)) -> Act {
        let input = match self {
            Life::Live { image_after } if sequence <= *image_after => old,
            _ => new,
        };
        let (phase, act) = next(self.phase(), input);
        match (act, self) {
            (Act::Apply | Act::Doubt, Life::Live { image_after }) => *image_after = sequence,
            (Act::Note, life) => life.note(sequence),
            (Act::Renew, life) => {
                life.enter(phase, 0);
                life.note(sequence);
            }
            _ => {}
        }
        act
    }

    /// Something up to the number `lacks` is missing.
    pub(super) fn on_lack(&mut self, lacks: u64) -> Act {
        let (phase, act) = next(self.phase(), Input::Lack);
        self.enter(phase, lacks);
        if matches!(act, Act::Note | Act::Suspect) {
            self.note(lacks);
        }
        act
    }

    /// The stream says with a message of a number that nothing of the service is good any more. An image that is on its
    /// way does not have that if it is older.
    pub(super) fn on_service_status(&mut self, sequence: u64) -> Act {
        self.on_numbered(sequence, (Input::Down, Input::OldDown))
    }

    /// A whole image has come that was taken after a number. Returns the messages behind it, oldest first, if it is to
    /// be shown.
    pub(super) fn on_image(&mut self, after: u64) -> Option<Vec<HeldMessage>> {
        let (phase, act) = next(self.phase(), Input::Image);
        if act != Act::Show {
            return None;
        }
        let held = self.take_held(after);
        self.enter(phase, after);
        held
    }

    /// The same of an image that is suspect and older than what is here, if that is to be kept.
    pub(super) fn on_older_image(&mut self, after: u64) -> Option<Vec<HeldMessage>> {
        let (phase, act) = next(self.phase(), Input::OlderImage);
        if act != Act::Keep {
            return None;
        }
        let held = self.take_held(after).unwrap_or_default();
        self.enter(phase, 0);
        Some(held)
    }

    fn take_held(&mut self, after: u64) -> Option<Vec<HeldMessage>> {
        let after_this = if units::planted(units::Bug::DropsHeld) { u64::MAX } else { after };
        self.fetch_mut().map(|fetch| fetch.held.take_after(after_this).collect())
    }

    /// Moves to a state. An image that is shown then was taken after `number`; one that is needed then is no older.
    fn enter(&mut self, phase: Phase, number: u64) {
        if phase == self.phase() {
            return;
        }
        let fetch = match std::mem::take(self) {
            Life::Idle => Box::default(),
            Life::Queued(fetch)
            | Life::Requeued(fetch)
            | Life::Requested(fetch)
            | Life::Awaited(fetch)
            | Life::Ahead(fetch) => fetch,
            Life::Live { image_after } => {
                Box::new(Fetch { needs_after: image_after.max(number), ..Fetch::default() })
            }
        };
        *self = match phase {
            Phase::Idle => Life::Idle,
            Phase::Queued => Life::Queued(fetch),
            Phase::Requeued => Life::Requeued(fetch),
            Phase::Requested => Life::Requested(fetch),
            Phase::Awaited => Life::Awaited(fetch),
            Phase::Live => Life::Live { image_after: number },
            Phase::Ahead => Life::Ahead(fetch),
        };
    }

    fn fetch(&self) -> Option<&Fetch> {
        match self {
            Life::Queued(fetch)
            | Life::Requeued(fetch)
            | Life::Requested(fetch)
            | Life::Awaited(fetch)
            | Life::Ahead(fetch) => Some(fetch),
            Life::Idle | Life::Live { .. } => None,
        }
    }

    fn fetch_mut(&mut self) -> Option<&mut Fetch> {
        match self {
            Life::Queued(fetch)
            | Life::Requeued(fetch)
            | Life::Requested(fetch)
            | Life::Awaited(fetch)
            | Life::Ahead(fetch) => Some(fetch),
            Life::Idle | Life::Live { .. } => None,
        }
    }

    /// An image that is older than a message is of no use, if one is needed.
    pub(super) fn note(&mut self, sequence: u64) {
        if let Some(fetch) = self.fetch_mut() {
            fetch.needs_after = fetch.needs_after.max(sequence);
        }
    }

    /// Whether an image is on its way.
    pub(super) fn awaits_image(&self) -> bool {
        matches!(self, Life::Requested(_) | Life::Awaited(_))
    }

    /// Whether an image is with the watchers, be it the instance's or a newer one.
    pub(super) fn is_shown(&self) -> bool {
        matches!(self, Life::Live { .. } | Life::Ahead(_))
    }

    /// Whether the instance knows over the present link that the item is wanted.
    pub(super) fn is_registered(&self) -> bool {
        !matches!(self, Life::Idle | Life::Queued(_))
    }

    /// The number up to which stream messages are in the image, if it is here.
    pub(super) fn image_after(&self) -> Option<u64> {
        match self {
            Life::Live { image_after } => Some(*image_after),
            _ => None,
        }
    }

    /// Keeps a message until the image is here. Returns false if there are too many: then all are dropped, and an image
    /// that is newer is needed.
    pub(super) fn hold(&mut self, sequence: u64, kind: Kind, body: &[u8], bytes_max: usize) -> bool {
        self.fetch_mut().is_none_or(|fetch| fetch.held.push(sequence, kind, body, bytes_max))
    }

    /// The first part of an image has come, which was taken after a number; `None` if no further part is to be taken.
    pub(super) fn receive(&mut self, after: Option<u64>) {
        if let Some(fetch) = self.fetch_mut() {
            fetch.incoming = after;
        }
    }

    /// Whether a part belongs to the image that is being received.
    pub(super) fn receives(&self, after: u64) -> bool {
        self.fetch().is_some_and(|fetch| fetch.incoming == Some(after))
    }

    /// Whether an image taken after `sequence` has what was lost, and what was dropped.
    pub(super) fn accepts_image(&self, sequence: u64) -> bool {
        let is_new = |fetch: &Fetch| sequence >= fetch.needs_after && fetch.held.fits(sequence);
        units::planted(units::Bug::TakesStaleImages) || self.fetch().is_none_or(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 7] = [
        Phase::Idle,
        Phase::Queued,
        Phase::Requeued,
        Phase::Requested,
        Phase::Awaited,
        Phase::Live,
        Phase::Ahead,
    ];
    const INPUTS: [Input; 12] = [
        Input::Want,
        Input::Turn,
        Input::TurnInVain,
        Input::Wait,
        Input::Image,
        Input::OlderImage,
        Input::Message,
        Input::OldMessage,
        Input::Lack,
        Input::Down,
        Input::OldDown,
        Input::Lost,
    ];

    /// An item in a state that lacks what comes before 10.
    fn life(phase: Phase) -> Life {
        let fetch = Box::new(Fetch { needs_after: 10, ..Fetch::default() });
        match phase {
            Phase::Idle => Life::Idle,
            Phase::Queued => Life::Queued(fetch),
            Phase::Requeued => Life::Requeued(fetch),
            Phase::Requested => Life::Requested(fetch),
            Phase::Awaited => Life::Awaited(fetch),
            Phase::Live => Life::Live { image_after: 10 },
            Phase::Ahead => Life::Ahead(fetch),
        }
    }

    fn take(life: &mut Life, input: Input) -> Act {
        match input {
            Input::Message => life.on_message(11),
            Input::OldMessage => life.on_message(10),
            Input::Lack => life.on_lack(12),
            Input::Down => life.on_service_status(11),
            Input::OldDown => life.on_service_status(10),
            Input::Image => life.on_image(13).map_or(Act::Pass, |_| Act::Show),
            Input::OlderImage => life.on_older_image(13).map_or(Act::Pass, |_| Act::Keep),
            _ => life.on(input),
        }
    }

    /// Each line: the input, and what becomes of an item in each state, in the order of `PHASES`.
    const TABLE: &str = "
| Want | Queued, Enqueue | Queued | Requeued | Requeued, Enqueue | Requeued, Enqueue | Requeued, Enqueue | Requeued, Enqueue |
| Turn | Idle | Requested, Register | Requested, AskAgain | Requested | Awaited | Live | Ahead |
| TurnInVain | Idle | Idle | Idle | Requested | Awaited | Live | Ahead |
| Wait | Idle | Queued | Requeued | Awaited | Awaited | Live | Ahead |
| Image | Idle | Queued | Requeued | Live, Show | Live, Show | Live | Ahead |
| OlderImage | Idle | Queued | Requeued | Ahead, Keep | Ahead, Keep | Ahead, Keep | Ahead |
| Message | Idle | Queued, Note | Requeued, Note | Requested, Hold | Awaited, Hold | Live, Apply | Requeued, Renew |
| OldMessage | Idle | Queued, Note | Requeued, Note | Requested, Hold | Awaited, Hold | Live, DropStale | Requeued, Renew |
| Lack | Idle | Queued | Requeued | Requested, Note | Awaited | Requeued, Suspect | Requeued, Suspect |
| Down | Idle | Queued, Note | Requeued, Note | Requested, Note | Awaited, Note | Live, Doubt | Ahead, Note |
| OldDown | Idle | Queued, Note | Requeued, Note | Requested, Note | Awaited, Note | Live | Ahead, Note |
| Lost | Idle | Idle | Idle | Idle | Idle | Idle | Idle |
";

    #[test]
    fn each_input_does_in_each_state_what_the_table_says() {
        let mut lines = String::from("\n");
        for input in INPUTS {
            let cells = PHASES.map(|phase| {
                let mut life = life(phase);
                let act = take(&mut life, input);
                assert_eq!(next(phase, input), (life.phase(), act), "{phase:?} {input:?}");
                match act {
                    Act::Pass => format!("{:?}", life.phase()),
                    _ => format!("{:?}, {act:?}", life.phase()),
                }
            });
            lines += &format!("| {input:?} | {} |\n", cells.join(" | "));
        }
        assert_eq!(lines, TABLE);
    }

    #[test]
    fn the_page_prints_the_table() {
        crate::state_tables::assert_printed(TABLE);
    }

    #[test]
    fn what_is_known_goes_with_the_state() {
        let mut life = life(Phase::Live);
        assert_eq!(life.on_lack(7), Act::Suspect);
        assert!(
            !life.accepts_image(9) && life.accepts_image(10),
            "an older image than the one that was here"
        );
        life.on(Input::Turn);
        assert_eq!((life.on_lack(20), life.on_message(21)), (Act::Note, Act::Hold));
        assert!(life.hold(21, Kind::Update, b"x", 100) && !life.accepts_image(19));
        life.receive(Some(20));
        assert!(life.receives(20) && !life.receives(21));
        assert_eq!(life.on_image(20).map(|held| held.len()), Some(1));
        assert_eq!((life.image_after(), life.on_message(20)), (Some(20), Act::DropStale));
        assert_eq!((life.on_lack(22), life.on(Input::Turn)), (Act::Suspect, Act::AskAgain));
        assert!(life.on_older_image(22).is_some() && life.image_after().is_none());
        assert_eq!((life.on_message(23), life.on(Input::Turn)), (Act::Renew, Act::AskAgain));
        assert!(!life.accepts_image(22) && life.accepts_image(23), "an image without what was dropped");
        life.on(Input::Lost);
        life.on(Input::Want);
        assert!(life.accepts_image(0), "another instance has other numbers");
    }
}
