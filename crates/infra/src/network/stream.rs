//! A connection between two ends, which stalls while what carries it is broken.
//!
//! A cable that is pulled sends nobody a message: whoever reads or writes waits, and goes on when the cable is back
//! in time. Only after a long silence the connection is given up, as TCP does it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// How much fits between the ends before a writer has to wait.
const BUFFER: usize = 64 * 1024;

/// How the line between two ends is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// Bytes pass.
    Open,
    /// Nothing passes, until it opens again or this moment comes.
    Stalled(Instant),
    /// Over, because the other end is gone.
    Reset,
    /// Over, because nothing passed for too long.
    TimedOut,
}

/// What the two ends share: how the line is, and who waits for news of it.
#[derive(Debug)]
pub(super) struct Line(Mutex<Shared>);

#[derive(Debug)]
struct Shared {
    condition: Condition,
    /// Reader and writer of each end.
    wakers: [Option<Waker>; 4],
}

impl Line {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shared { condition: Condition::Open, wakers: Default::default() })))
    }

    /// Stalls the line, for at most `patience` from now on.
    pub(super) fn stall(&self, patience: Duration) {
        let condition = self.0.lock().condition;
        if condition == Condition::Open {
            self.set(Condition::Stalled(Instant::now() + patience));
        }
    }

    /// Opens a stalled line again.
    pub(super) fn open(&self) {
        self.set(Condition::Open);
    }

    /// Ends the line because one end is gone.
    pub(super) fn reset(&self) {
        self.set(Condition::Reset);
    }

    /// What is over stays over.
    fn set(&self, condition: Condition) {
        let mut shared = self.0.lock();
        if matches!(shared.condition, Condition::Reset | Condition::TimedOut) || shared.condition == condition
        {
            return;
        }
        shared.condition = condition;
        let wakers = std::mem::take(&mut shared.wakers);
        drop(shared);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// How the line is; the caller is woken when that changes.
    fn look(&self, place: usize, context: &Context<'_>) -> Condition {
        let mut shared = self.0.lock();
        let waker = &mut shared.wakers[place];
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        shared.condition
    }
}

#[derive(Debug)]
enum Carrier {
    Memory(DuplexStream),
    Socket(TcpStream),
}

/// A connection: one end of it.
#[derive(Debug)]
pub struct Stream {
    carrier: Carrier,
    line: Arc<Line>,
    /// 0 for the end that connected, 2 for the one that accepted.
    place: usize,
    local: SocketAddr,
    peer: SocketAddr,
    giving_up: [Option<Pin<Box<Sleep>>>; 2],
}

/// The two ends of a connection: of who connects from `from`, and of who accepts at `to`.
pub(super) fn pair(from: SocketAddr, to: SocketAddr, line: &Arc<Line>) -> (Stream, Stream) {
    let (near, far) = tokio::io::duplex(BUFFER);
    let end = |carrier, place, local, peer| Stream {
        carrier: Carrier::Memory(carrier),
        line: Arc::clone(line),
        place,
        local,
        peer,
        giving_up: [None, None],
    };
    (end(near, 0, from, to), end(far, 2, to, from))
}

impl Stream {
    /// A connection to something real outside.
    pub(super) fn real(socket: TcpStream, from: SocketAddr, to: SocketAddr, line: &Arc<Line>) -> Self {
        Self {
            carrier: Carrier::Socket(socket),
            line: Arc::clone(line),
            place: 0,
            local: from,
            peer: to,
            giving_up: [None, None],
        }
    }

    /// Two connected ends outside any network, for whoever speaks a protocol to itself.
    pub fn apart() -> (Self, Self) {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        pair(nowhere, nowhere, &Line::new())
    }

    /// The own address, as the network sees it.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The address of the other end, as the network sees it.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Ready when bytes may pass; `way` is 0 for reading and 1 for writing.
    fn poll_line(&mut self, way: usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let condition = self.line.look(self.place + way, context);
        let until = match condition {
            Condition::Open => {
                self.giving_up[way] = None;
                return Poll::Ready(Ok(()));
            }
            Condition::Reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Condition::TimedOut => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Condition::Stalled(until) => until,
        };
        let sleep = self.giving_up[way].get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        match sleep.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.line.set(Condition::TimedOut);
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.poll_line(0, context) {
            Poll::Ready(Ok(())) => match &mut self.carrier {
                Carrier::Memory(carrier) => Pin::new(carrier).poll_read(context, buffer),
                Carrier::Socket(carrier) => Pin::new(carrier).poll_read(context, buffer),
            },
            other => other,
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll_line(1, context) {
            Poll::Ready(Ok(())) => match &mut self.carrier {
                Carrier::Memory(carrier) => Pin::new(carrier).poll_write(context, bytes),
                Carrier::Socket(carrier) => Pin::new(carrier).poll_write(context, bytes),
            },
            Poll::Ready(Err(failure)) => Poll::Ready(Err(failure)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Memory(carrier) => Pin::new(carrier).poll_flush(context),
            Carrier::Socket(carrier) => Pin::new(carrier).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Memory(carrier) => Pin::new(carrier).poll_shutdown(context),
            Carrier::Socket(carrier) => Pin::new(carrier).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn ends() -> (Stream, Stream, Arc<Line>) {
        let line = Line::new();
        let (one, other) =
            pair(SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 2)), &line);
        (one, other, line)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_line_goes_on_when_it_opens_in_time() {
        let (mut one, mut other, line) = ends();
        line.stall(Duration::from_mins(1));
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 2];
            other.read_exact(&mut bytes).await.map(|_| bytes)
        });
        let writer = tokio::spawn(async move { one.write_all(b"hi").await });
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!reader.is_finished() && !writer.is_finished());
        line.open();
        assert_eq!(reader.await.unwrap().unwrap(), *b"hi");
        writer.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_silence_ends_the_connection_for_good() {
        let (mut one, mut other, line) = ends();
        let start = Instant::now();
        line.stall(Duration::from_mins(1));
        let failure = other.read_u8().await.unwrap_err();
        assert_eq!((failure.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
        line.open();
        assert_eq!(one.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_reset_wakes_who_reads() {
        let (_one, mut other, line) = ends();
        let reader = tokio::spawn(async move { other.read_u8().await });
        tokio::task::yield_now().await;
        line.reset();
        assert_eq!(reader.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
