//! What is seen on the serial console: a boot, a login, and a very small shell.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;

use super::boot::Boot;
use crate::clock::Clock;
use crate::object::Object as _;
use crate::world::machine::Machine;

/// The operating system guests say they are. A lab says that it is one.
pub(super) const OS: &str = "Trellis Lab Linux 1.0 (emulated)";
/// Its kernel.
pub(super) const KERNEL: &str = "6.12.0-lab";

/// What the firmware shows where there is nothing to boot from.
pub(super) const NO_DISK: &str = "SeaBIOS (version 1.16.3-lab)\r\nBooting from Hard Disk...\r\nBoot failed: not a bootable disk\r\n\r\nNo bootable device.\r\n";

/// What the kernel and the first units show.
pub(super) fn kernel(vmi: &Value, processors: i64, memory: &str) -> String {
    let lines = [
        "SeaBIOS (version 1.16.3-lab)".to_owned(),
        "Booting from Hard Disk...".to_owned(),
        format!("[    0.000000] Linux version {KERNEL} ({OS})"),
        "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/vda4 console=ttyS0".to_owned(),
        format!(
            "[    0.000000] DMI: KubeVirt None/RHEL, BIOS; system UUID {}",
            vmi.text("/spec/domain/firmware/uuid")
        ),
        "[    0.021337] Hypervisor detected: KVM (emulated)".to_owned(),
        format!("[    0.104211] smp: Brought up 1 node, {processors} CPUs"),
        format!("[    0.208954] Memory: {memory} available"),
        "[    1.402117] systemd[1]: Hostname set.".to_owned(),
        "[  OK  ] Reached target Basic System.".to_owned(),
        String::new(),
    ];
    lines.join("\r\n")
}

/// What is shown once everything has started, before anybody has logged in.
pub(super) fn greeting(boot: &Boot) -> String {
    format!(
        "[  OK  ] Reached target Multi-User System.\r\n\r\n{OS}\r\nKernel {KERNEL} on an x86_64 (ttyS0)\r\n\r\n{} login: ",
        boot.hostname
    )
}

/// Somebody at the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seat {
    /// A name is asked for.
    Name,
    /// The password of a name is asked for; any will do.
    Password(String),
    /// Somebody is logged in.
    Shell(String),
}

/// Answers what is typed, for as long as the machine runs.
pub(super) async fn attend(machine: Arc<Machine>, boot: Arc<Boot>, clock: Clock) {
    let mut keyboard = machine.console.keyboard();
    let mut seat = Seat::Name;
    let mut line = String::new();
    loop {
        let typed = match keyboard.recv().await {
            Ok(typed) => typed,
            // Keys that came faster than anybody can type are lost.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        for character in String::from_utf8_lossy(&typed).chars() {
            match character {
                '\r' | '\n' => {
                    let (next, shown) = entered(&seat, line.trim(), &boot, clock);
                    machine.console.show(&format!("\r\n{shown}"));
                    seat = next;
                    line.clear();
                }
                '\u{8}' | '\u{7f}' => {
                    if line.pop().is_some() && !matches!(seat, Seat::Password(_)) {
                        machine.console.show("\u{8} \u{8}");
                    }
                }
                control if control.is_control() => {}
                character => {
                    line.push(character);
                    if !matches!(seat, Seat::Password(_)) {
                        machine.console.show(character.encode_utf8(&mut [0; 4]));
                    }
                }
            }
        }
    }
}

/// What comes after a line was entered: who sits there, and what is shown.
fn entered(seat: &Seat, line: &str, boot: &Boot, clock: Clock) -> (Seat, String) {
    let name_prompt = format!("{} login: ", boot.hostname);
    match seat {
        Seat::Name if line.is_empty() => (Seat::Name, name_prompt),
        Seat::Name => (Seat::Password(line.to_owned()), "Password: ".to_owned()),
        Seat::Password(name) => {
            (Seat::Shell(name.clone()), format!("Last login: never\r\n{}", prompt(name, boot)))
        }
        Seat::Shell(name) => {
            let mut words = line.split_whitespace();
            let said = match words.next() {
                None => String::new(),
                Some("exit" | "logout") => return (Seat::Name, format!("logout\r\n\r\n{name_prompt}")),
                Some("hostname") => format!("{}\r\n", boot.hostname),
                Some("whoami") => format!("{name}\r\n"),
                Some("uname") => format!("Linux {} {KERNEL} x86_64\r\n", boot.hostname),
                Some("date") => format!("{}\r\n", clock.seconds()),
                Some("cat") => words.map(|path| contents(boot, path)).collect(),
                Some("systemctl") => {
                    boot.units.keys().fold(String::new(), |text, unit| text + unit + " loaded active\r\n")
                }
                Some(other) => format!("bash: {other}: command not found\r\n"),
            };
            (seat.clone(), said + &prompt(name, boot))
        }
    }
}

fn prompt(name: &str, boot: &Boot) -> String {
    format!("[{name}@{} ~]$ ", boot.hostname.split('.').next().unwrap_or_default())
}

/// A file as `cat` shows it. Only root reads what may be secret, and nobody here is.
fn contents(boot: &Boot, path: &str) -> String {
    let secret = ["/etc/kubernetes", "/root", "/var/lib"].iter().any(|place| path.starts_with(place));
    match boot.text(path) {
        Some(_) if secret => format!("cat: {path}: Permission denied\r\n"),
        Some(text) => text.replace('\n', "\r\n"),
        None => format!("cat: {path}: No such file or directory\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_logs_in_looks_around_and_leaves() {
        let mut boot = Boot { hostname: "w1".to_owned(), ..Boot::default() };
        boot.files.insert("/etc/motd".to_owned(), b"hi\n".to_vec());
        boot.files.insert("/etc/kubernetes/kubelet.conf".to_owned(), b"secret".to_vec());
        let clock = Clock::System;
        let (seat, shown) = entered(&Seat::Name, "core", &boot, clock);
        assert_eq!(shown, "Password: ");
        let (seat, shown) = entered(&seat, "x", &boot, clock);
        assert!(shown.ends_with("[core@w1 ~]$ "));
        assert!(entered(&seat, "cat /etc/motd", &boot, clock).1.starts_with("hi\r\n"));
        assert!(!entered(&seat, "cat /etc/kubernetes/kubelet.conf", &boot, clock).1.contains("secret"));
        assert_eq!(entered(&seat, "exit", &boot, clock).0, Seat::Name);
    }
}
