//! ZeroMQ as an end of `tickcast bench`: a pair of sockets each way over TCP, looked at without
//! waiting, with the one I/O thread that a context has by default. Streams go by PUSH and PULL, which wait
//! for room where PUB drops.

use measure::ends::{self, End, Failure, Link};
use serde_json::json;

/// Messages that may wait at either end, before a sender has to wait.
const HIGH_WATER: i32 = 1 << 20;

fn main() -> Result<(), Failure> {
    let end = End::enter()?;
    if end.path != "tcp" {
        return Err(format!("ZeroMQ goes by tcp here, not by {}", end.path).into());
    }
    if end.pairs != 1 {
        return Err(format!("one link, not {}", end.pairs).into());
    }
    let ends = Ends::open(&end)?;
    ends::answer(&json!({ "ready": true }));
    ends::play(&end, &mut [ends])
}

struct Ends {
    socket: zmq::Socket,
}

impl Ends {
    fn open(end: &End) -> Result<Ends, Failure> {
        let context = zmq::Context::new();
        let address = format!("tcp://127.0.0.1:{}", end.port);
        let kind = match end.role.as_str() {
            "stream" => zmq::PUSH,
            "receiver" => zmq::PULL,
            _ => zmq::PAIR,
        };
        let socket = context.socket(kind)?;
        socket.set_sndhwm(HIGH_WATER)?;
        socket.set_rcvhwm(HIGH_WATER)?;
        socket.set_linger(0)?;
        if end.is_far() {
            socket.bind(&address)?;
        } else {
            socket.connect(&address)?;
        }
        Ok(Ends { socket })
    }
}

impl Link for Ends {
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        match self.socket.send(message, zmq::DONTWAIT) {
            Ok(()) => Ok(true),
            Err(zmq::Error::EAGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        let mut message = zmq::Message::new();
        let mut count = 0;
        while count < 256 {
            match self.socket.recv(&mut message, zmq::DONTWAIT) {
                Ok(()) => handle(&message),
                Err(zmq::Error::EAGAIN) => break,
                Err(error) => return Err(error.into()),
            }
            count += 1;
        }
        Ok(count)
    }
}
