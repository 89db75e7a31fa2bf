//! What else a guest offers on its network: every one has an SSH server, and user data can start a web server.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Boot, Guest, Program};
use crate::network::fabric::Stream;

/// The port of the SSH server.
const SSH: u16 = 22;
/// The port of Python's web server where none is said.
const WEB: u16 = 8000;
/// How long to wait before listening again where the machine has not moved.
const AGAIN: Duration = Duration::from_secs(1);

/// An SSH server: it greets, and lets nobody in.
#[derive(Debug)]
pub struct Sshd;

impl Program for Sshd {
    fn name(&self) -> &'static str {
        "sshd"
    }

    fn is_started_by(&self, _: &Boot) -> bool {
        true
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(serve(guest, SSH, |_, mut stream| {
            Box::pin(async move {
                if stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.is_ok() {
                    // The client says who it is; keys of the other side are nothing a lab has.
                    let _ = stream.read(&mut [0; 256]).await;
                }
            })
        }))
    }
}

/// A web server that says whose it is: `python3 -m http.server 8080` in user data.
#[derive(Debug)]
pub struct Web;

impl Program for Web {
    fn name(&self) -> &'static str {
        "python3"
    }

    fn is_started_by(&self, boot: &Boot) -> bool {
        port(boot).is_some()
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        let port = port(&guest.boot).unwrap_or(WEB);
        Box::pin(serve(guest, port, |hostname, mut stream| {
            Box::pin(async move {
                // Requests for a page have no body: they end with an empty line.
                let mut request: Vec<u8> = Vec::new();
                let mut part = [0; 1024];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut part).await {
                        Ok(read) if read > 0 && request.len() < 64 * 1024 => {
                            request.extend(part.iter().take(read));
                        }
                        _ => return,
                    }
                }
                let page = format!("{hostname}\n");
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    page.len()
                );
                let _ = stream.write_all((head + &page).as_bytes()).await;
                let _ = stream.shutdown().await;
            })
        }))
    }
}

/// The port of the web server that user data starts.
fn port(boot: &Boot) -> Option<u16> {
    let started = boot.lines().find_map(|line| line.split_once("-m http.server"))?;
    let word = started.1.split_whitespace().next();
    Some(word.and_then(|word| word.parse().ok()).unwrap_or(WEB))
}

/// Listens for as long as the machine runs, wherever it is moved to.
async fn serve(
    guest: Guest,
    port: u16,
    answer: fn(String, Stream) -> BoxFuture<'static, ()>,
) -> Result<(), String> {
    loop {
        let place = guest.network.pod();
        let mut connections = guest.network.listen(port);
        let mut answers = tokio::task::JoinSet::new();
        while let Some(stream) = connections.recv().await {
            guest.running().await;
            answers.spawn(answer(guest.boot.hostname.clone(), stream));
            while answers.try_join_next().is_some() {}
        }
        // The pod is gone: the machine is in another one, or about to be.
        if guest.network.pod() == place {
            guest.sleep(AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_in_the_command() {
        let boot = |command: &str| Boot { commands: vec![command.to_owned()], ..Boot::default() };
        assert_eq!(port(&boot("python3 -m http.server 8080 &")), Some(8080));
        assert_eq!(port(&boot("nohup python3 -m http.server")), Some(8000));
        assert_eq!(port(&boot("python3 app.py")), None);
    }
}
