//! What a link has asked for and has not got yet.

use std::collections::{HashSet, VecDeque};

use super::errors::LinkError;
use crate::backbone::LinkUp;
use crate::key::ItemKey;
use crate::places::Places;

/// What is kept of a link.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Requests for images, in order.
    requests: VecDeque<Box<[u8]>>,
    /// The keys that are still wanted of them. A key is asked for once.
    keys: HashSet<Box<[u8]>>,
    /// Questions: service, first and last number.
    questions: VecDeque<Question>,
    /// Of requests and questions.
    bytes: usize,
    /// Items, by their places in the table, whose first image the server waits for and that have one now.
    images: Places,
    /// An image has its turn next, not a request.
    is_turn_of_images: bool,
    /// The link stands in the row of those that are to be served.
    is_in_row: bool,
}

/// Service, first and last number of a lost range.
pub(super) type Question = (u16, u64, u64);

/// What has its turn.
pub(super) enum Next {
    /// The image of an item, by its place in the table.
    Image(usize),
    /// A request for an image.
    Request(Box<[u8]>),
    /// A request for an image that is not wanted any more.
    Dropped,
}

/// What a request takes beside its bytes.
const REQUEST_BYTES: usize = 64;

impl Kept {
    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.images.is_empty() && self.questions.is_empty()
    }

    /// Whether no request for an image is kept.
    pub(super) fn has_no_requests(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether no question is kept.
    pub(super) fn has_no_questions(&self) -> bool {
        self.questions.is_empty()
    }

    /// Keeps a request for the image of an item. Returns whether it was not kept before: one that is will be answered
    /// with an image that is newer than this request.
    ///
    /// # Errors
    /// More than `bytes_max` would be kept.
    pub(super) fn keep_request(
        &mut self,
        key: ItemKey<'_>,
        request: &[u8],
        bytes_max: usize,
    ) -> Result<bool, LinkError> {
        let need = request.len() + REQUEST_BYTES;
        self.check_room(need, bytes_max)?;
        let is_new = key.with_bytes(|key| self.keys.insert(key.into()));
        if is_new {
            self.bytes += need;
            self.requests.push_back(request.into());
        }
        Ok(is_new)
    }

    /// Keeps a question.
    ///
    /// # Errors
    /// More than `bytes_max` would be kept.
    pub(super) fn keep_question(&mut self, question: Question, bytes_max: usize) -> Result<(), LinkError> {
        self.check_room(REQUEST_BYTES, bytes_max)?;
        self.bytes += REQUEST_BYTES;
        self.questions.push_back(question);
        Ok(())
    }

    fn check_room(&self, need: usize, bytes_max: usize) -> Result<(), LinkError> {
        if self.bytes + need > bytes_max { Err(LinkError::TooMuch) } else { Ok(()) }
    }

    /// An item that the server waits for has its first image.
    pub(super) fn keep_image(&mut self, index: usize) {
        self.images.insert(index);
    }

    /// An item is not wanted any more: a request for it is passed over when its turn comes.
    pub(super) fn forget(&mut self, key: ItemKey<'_>) {
        if !self.keys.is_empty() {
            key.with_bytes(|key| self.keys.remove(key));
        }
    }

    /// The question that has its turn.
    pub(super) fn next_question(&mut self) -> Option<Question> {
        let question = self.questions.pop_front()?;
        self.bytes -= REQUEST_BYTES;
        Some(question)
    }

    /// The image or the request that has its turn: they take turns.
    pub(super) fn next(&mut self) -> Option<Next> {
        if self.requests.is_empty() && self.images.is_empty() {
            return None;
        }
        self.is_turn_of_images =
            !self.is_turn_of_images && !self.images.is_empty() || self.requests.is_empty();
        if self.is_turn_of_images {
            return self.images.pop_first().map(Next::Image);
        }
        let request = self.requests.pop_front()?;
        self.bytes -= request.len() + REQUEST_BYTES;
        let key = LinkUp::parse(&request).ok().and_then(|msg| msg.key());
        let is_wanted = key.is_some_and(|key| key.with_bytes(|key| self.keys.remove(key)));
        Some(if is_wanted { Next::Request(request) } else { Next::Dropped })
    }

    /// Gives back the memory of one request; false if there is none.
    pub(super) fn shed(&mut self) -> bool {
        let Some(bytes) = self.requests.pop_front() else { return false };
        if let Some(key) = LinkUp::parse(&bytes).ok().and_then(|msg| msg.key()) {
            key.with_bytes(|key| self.keys.remove(key));
        }
        true
    }

    /// The link gets a place in the row. Returns whether it had none.
    pub(super) fn enter_row(&mut self) -> bool {
        !std::mem::replace(&mut self.is_in_row, true)
    }

    /// The link has left the row.
    pub(super) fn leave_row(&mut self) {
        self.is_in_row = false;
    }
}
