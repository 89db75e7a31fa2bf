//! What processes use of the machine, as the kernel accounts for it.

use std::time::Duration;

use crate::support::Result;

/// How long one tick of the kernel's accounts is: a hundred to the second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time and memory of some processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Time on a processor, of the programs and of the kernel for them.
    pub(crate) cpu: Duration,
    /// Memory that is really there, in bytes.
    pub(crate) resident: u64,
}

impl Usage {
    /// What the processes used until now, together.
    pub(crate) fn of(processes: &[u32]) -> Result<Self> {
        let mut sum = Self::default();
        for process in processes {
            let one = read(*process)?;
            sum.cpu += one.cpu;
            sum.resident += one.resident;
        }
        Ok(sum)
    }
}

fn read(process: u32) -> Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))
        .map_err(|error| format!("the server is gone: {error}"))?;
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(Usage {
        cpu: ticks(&stat).ok_or("the kernel's account of the processor reads oddly")? * TICK,
        resident: resident(&status).ok_or("the kernel's account of the memory reads oddly")?,
    })
}

/// User and system time of `/proc/…/stat`, in ticks.
fn ticks(stat: &str) -> Option<u32> {
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The resident memory of `/proc/…/status`, in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_accounts() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 1 2 3";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t4\n"), Some(2 << 20));
        assert!(Usage::of(&[std::process::id()]).unwrap().resident > 1 << 20);
    }
}
