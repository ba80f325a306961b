//! How much of an item's image is here: one state, and a table of what each input does in it.
//!
//! [`Extent::next`] is the table. `docs/item-states.md` prints it, and a test compares the two.

use rwf::RefreshMsg;

/// The states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// There is no image.
    Nothing,
    /// The first parts of an image are here, and the last one is not.
    Parts,
    /// A part could not be read: there is no image, and the further parts are of no use.
    Skipping,
    /// The image is whole.
    Whole,
}

/// What comes about an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A part that begins an image, and others follow: it has number 0, or asks to clear the cache.
    First,
    /// The same, and none follow.
    FirstAndLast,
    /// A part with a number above 0, and others follow.
    Next,
    /// The same, and none follow.
    NextAndLast,
    /// A part without a number, and others follow.
    Plain,
    /// The same, and none follow: a refresh of one message.
    PlainAndLast,
    /// The part that has come cannot be read, and others follow.
    Unreadable,
    /// The same, and none follow.
    UnreadableAndLast,
    /// A status says that the image is to be dropped.
    Clear,
    /// The next part is of another stream, so that it begins an image.
    BeginAgain,
}

/// What becomes of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// The part begins an image.
    Begin,
    /// The part continues the image.
    Continue,
    /// The part is passed over.
    Skip,
    /// The image is dropped.
    Drop,
    /// The image stays as it is.
    Keep,
}

impl Input {
    /// A part of a refresh.
    pub(crate) fn of(msg: &RefreshMsg<'_>) -> Input {
        match (msg.clear_cache || msg.part_num == Some(0), msg.part_num, msg.complete) {
            (true, _, false) => Input::First,
            (true, _, true) => Input::FirstAndLast,
            (false, Some(_), false) => Input::Next,
            (false, Some(_), true) => Input::NextAndLast,
            (false, None, false) => Input::Plain,
            (false, None, true) => Input::PlainAndLast,
        }
    }

    /// A part that cannot be read, the last one or not.
    pub(crate) fn unreadable(is_last: bool) -> Input {
        if is_last { Input::UnreadableAndLast } else { Input::Unreadable }
    }
}

impl Extent {
    /// The table: the state that follows, and what becomes of the image.
    pub(crate) const fn next(self, input: Input) -> (Extent, Merge) {
        use Extent::{Nothing, Parts, Skipping, Whole};
        match (input, self) {
            (Input::First, _) => (Parts, Merge::Begin),
            (Input::FirstAndLast, _) => (Whole, Merge::Begin),

            (Input::Next | Input::Plain, Parts) => (Parts, Merge::Continue),
            (Input::NextAndLast | Input::PlainAndLast, Parts) => (Whole, Merge::Continue),
            (Input::Next, Skipping) => (Skipping, Merge::Skip),
            (Input::NextAndLast, Skipping) => (Nothing, Merge::Skip),
            (Input::Plain, Skipping) => (Parts, Merge::Begin),
            (Input::PlainAndLast, Skipping) => (Whole, Merge::Begin),
            (Input::Next | Input::Plain, Nothing | Whole) => (Parts, Merge::Begin),
            (Input::NextAndLast | Input::PlainAndLast, Nothing | Whole) => (Whole, Merge::Begin),

            (Input::Unreadable, _) => (Skipping, Merge::Drop),
            (Input::UnreadableAndLast, _) => (Nothing, Merge::Drop),

            (Input::Clear, Whole) => (Nothing, Merge::Drop),
            (Input::Clear, Nothing | Parts | Skipping) => (self, Merge::Drop),

            (Input::BeginAgain, Parts) => (Nothing, Merge::Drop),
            (Input::BeginAgain, Nothing | Skipping | Whole) => (self, Merge::Keep),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENTS: [Extent; 4] = [Extent::Nothing, Extent::Parts, Extent::Skipping, Extent::Whole];
    const INPUTS: [Input; 10] = [
        Input::First,
        Input::FirstAndLast,
        Input::Next,
        Input::NextAndLast,
        Input::Plain,
        Input::PlainAndLast,
        Input::Unreadable,
        Input::UnreadableAndLast,
        Input::Clear,
        Input::BeginAgain,
    ];

    /// Each line: the input, and what becomes of an image in each state, in the order of `EXTENTS`.
    const TABLE: &str = "
| First | Parts, Begin | Parts, Begin | Parts, Begin | Parts, Begin |
| FirstAndLast | Whole, Begin | Whole, Begin | Whole, Begin | Whole, Begin |
| Next | Parts, Begin | Parts, Continue | Skipping, Skip | Parts, Begin |
| NextAndLast | Whole, Begin | Whole, Continue | Nothing, Skip | Whole, Begin |
| Plain | Parts, Begin | Parts, Continue | Parts, Begin | Parts, Begin |
| PlainAndLast | Whole, Begin | Whole, Continue | Whole, Begin | Whole, Begin |
| Unreadable | Skipping, Drop | Skipping, Drop | Skipping, Drop | Skipping, Drop |
| UnreadableAndLast | Nothing, Drop | Nothing, Drop | Nothing, Drop | Nothing, Drop |
| Clear | Nothing, Drop | Parts, Drop | Skipping, Drop | Nothing, Drop |
| BeginAgain | Nothing, Keep | Nothing, Drop | Skipping, Keep | Whole, Keep |
";

    #[test]
    fn each_input_does_in_each_state_what_the_table_says() {
        let mut lines = String::from("\n");
        for input in INPUTS {
            let cells = EXTENTS.map(|extent| {
                let (after, merge) = extent.next(input);
                format!("{after:?}, {merge:?}")
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
    fn parts_are_told_by_their_numbers() {
        let new = || RefreshMsg::new(rwf::Domain::MARKET_PRICE, 5, rwf::DataType::FIELD_LIST);
        let part = |part_num, clear_cache, complete| {
            Input::of(&RefreshMsg { part_num, clear_cache, complete, ..new() })
        };
        assert_eq!(part(Some(0), false, false), Input::First);
        assert_eq!(part(Some(3), true, true), Input::FirstAndLast);
        assert_eq!(part(None, true, false), Input::First);
        assert_eq!(part(Some(3), false, false), Input::Next);
        assert_eq!(part(Some(3), false, true), Input::NextAndLast);
        assert_eq!((part(None, false, false), part(None, false, true)), (Input::Plain, Input::PlainAndLast));
    }
}
