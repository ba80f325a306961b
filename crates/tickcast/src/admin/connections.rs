//! Connections of the admin port: a few at a time, and none that says nothing for long. They must not use up the
//! descriptors that a daemon keeps for itself.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};

/// Most of them. One more ends the oldest: who asks has its answer within milliseconds, who has nothing to ask stays.
pub(super) const CONNECTIONS_MAX: usize = 16;
/// One that has sent nothing for so long is closed; a daemon that describes itself slowly answers within that.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// Between two attempts to accept if there is no descriptor.
const NO_DESCRIPTOR_WAIT: Duration = Duration::from_millis(100);

/// A listener that keeps to these bounds.
pub(super) struct Bounded {
    listener: TcpListener,
    /// Those that are open, oldest first.
    open: VecDeque<Weak<Ending>>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Bounded {
        Bounded { listener, open: VecDeque::new() }
    }

    /// Makes room for one more.
    fn make_room(&mut self) {
        self.open.retain(|ending| ending.strong_count() > 0);
        while self.open.len() >= CONNECTIONS_MAX {
            if let Some(oldest) = self.open.pop_front().and_then(|ending| ending.upgrade()) {
                oldest.end();
            }
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    self.make_room();
                    let connection = Connection::new(stream);
                    self.open.push_back(Arc::downgrade(&connection.ending));
                    return (connection, peer);
                }
                Err(_) => tokio::time::sleep(NO_DESCRIPTOR_WAIT).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whether a connection is to end, and who waits for it.
#[derive(Default)]
struct Ending(Mutex<(bool, Option<Waker>)>);

impl Ending {
    fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    fn is_due(&self, context: &Context<'_>) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(context.waker().clone());
        state.0
    }
}

/// A connection that ends when it is silent for too long, or another one needs its place.
pub(super) struct Connection {
    stream: TcpStream,
    silent: Pin<Box<Sleep>>,
    ending: Arc<Ending>,
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        let silent = Box::pin(tokio::time::sleep(SILENT_MAX));
        Connection { stream, silent, ending: Arc::default() }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.silent.as_mut().reset(Instant::now() + SILENT_MAX);
            return read;
        }
        let is_silent = self.silent.as_mut().poll(context).is_ready();
        if is_silent || self.ending.is_due(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
