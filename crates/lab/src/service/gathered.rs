//! A connection that sends together what many answers have to say.
//!
//! HTTP/2 puts the answers of all requests of a client on one connection, and flushes after each of them.
//! Behind TLS every flush is a record of its own and a call of the kernel, which for the events of a thousand
//! watches is most of the work. So a flush is put off until the tasks that are ready to run now had their turn:
//! what they have to say goes out with it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is gathered at most before it is sent.
const LIMIT: usize = 128 * 1024;
/// Room that is kept when all is sent; a connection at rest should not hold much.
const KEPT: usize = 16 * 1024;

/// A connection whose flushes wait for one turn of the runtime.
///
/// It counts on being read from in every turn before it is flushed, as HTTP/2 does: that is how it knows that a
/// turn has passed.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    inner: S,
    waiting: BytesMut,
    flush: Flush,
}

/// How far a flush is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// None was asked for.
    Idle,
    /// One was asked for, and the task will be woken for it.
    PutOff,
    /// That turn has come.
    Due,
}

impl<S> Gathered<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, waiting: BytesMut::new(), flush: Flush::Idle }
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Hands over everything that was gathered.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(context, &self.waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(sent);
        }
        if self.waiting.capacity() > KEPT {
            self.waiting = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.flush == Flush::PutOff {
            self.flush = Flush::Due;
        }
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= LIMIT {
            ready!(self.poll_send(context))?;
        }
        self.waiting.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.flush {
            Flush::Idle if self.waiting.is_empty() => Pin::new(&mut self.inner).poll_flush(context),
            Flush::Idle => {
                self.flush = Flush::PutOff;
                // A task that wakes itself goes to the end of the queue.
                context.waker().wake_by_ref();
                Poll::Ready(Ok(()))
            }
            Flush::PutOff => Poll::Ready(Ok(())),
            Flush::Due => {
                ready!(self.poll_send(context))?;
                ready!(Pin::new(&mut self.inner).poll_flush(context))?;
                self.flush = Flush::Idle;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// How often somebody writes to it.
    #[derive(Debug, Default)]
    struct Counted {
        pieces: Vec<Vec<u8>>,
    }

    impl AsyncRead for Counted {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.pieces.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_is_flushed_in_one_turn_is_sent_together() {
        let mut gathered = Gathered::new(Counted::default());
        gathered.write_all(b"one ").await.unwrap();
        gathered.flush().await.unwrap();
        gathered.write_all(b"two").await.unwrap();
        gathered.flush().await.unwrap();
        assert!(gathered.inner.pieces.is_empty());
        gathered.read_u8().await.unwrap_err();
        gathered.flush().await.unwrap();
        assert_eq!(gathered.inner.pieces, [b"one two"]);
        gathered.write_all(b"last").await.unwrap();
        gathered.shutdown().await.unwrap();
        assert_eq!(gathered.inner.pieces.len(), 2, "nothing is left behind at the end");
    }

    #[tokio::test]
    async fn not_more_than_the_limit_is_gathered() {
        let mut gathered = Gathered::new(Counted::default());
        for _ in 0..3 {
            gathered.write_all(&vec![7; LIMIT]).await.unwrap();
        }
        assert_eq!(gathered.inner.pieces.len(), 2);
    }
}
