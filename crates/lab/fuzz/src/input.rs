/// Takes decisions off the front of an input; at its end everything is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Input<'a> {
        Input { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn u8(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// Bytes behind a `u16` length, as far as there are any.
    pub(crate) fn chunk(&mut self) -> &'a [u8] {
        let length = usize::from(self.u16()).min(self.rest.len());
        let (chunk, rest) = self.rest.split_at(length);
        self.rest = rest;
        chunk
    }
}
