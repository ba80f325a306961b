use super::Failure;

/// What is measured: one way in each direction. No call waits.
pub trait Link {
    /// Messages that are sent without a [`Link::turn`] when they go out as fast as they can.
    const BURST: u64 = 32;

    /// Sends a message; `false` when there is no room at present.
    ///
    /// # Errors
    /// It never will.
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure>;
    /// Hands on what has come; how many messages.
    ///
    /// # Errors
    /// The link is broken.
    fn receive(&mut self, handle: impl FnMut(&[u8])) -> Result<usize, Failure>;
    /// Lets the link do what it does besides, like to bring out what waits; called whenever the sender has
    /// nothing to send.
    ///
    /// # Errors
    /// The link is broken.
    fn turn(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// The same after each [`Link::receive`], where that does not do it.
    ///
    /// # Errors
    /// The link is broken.
    fn turn_beside_receive(&mut self) -> Result<(), Failure> {
        self.turn()
    }
}

/// A link of an end that shares its CPU: the CPU is left to others whenever nothing has come, and at each turn.
pub(crate) struct Yielding<'a, L>(pub(crate) &'a mut L);

impl<L: Link> Link for Yielding<'_, L> {
    const BURST: u64 = L::BURST;

    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        self.0.send(message)
    }

    fn receive(&mut self, handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        let count = self.0.receive(handle)?;
        if count == 0 {
            std::thread::yield_now();
        }
        Ok(count)
    }

    fn turn(&mut self) -> Result<(), Failure> {
        self.0.turn()?;
        std::thread::yield_now();
        Ok(())
    }

    fn turn_beside_receive(&mut self) -> Result<(), Failure> {
        self.0.turn_beside_receive()
    }
}
