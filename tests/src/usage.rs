//! CPU time and memory of a process, as Linux accounts for them.

use std::{fs, time::Duration};

/// Linux reports CPU time to programs in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// Returns the CPU time that a process has used so far, user and system.
///
/// # Panics
///
/// If there is no such process.
pub fn cpu_time(process: u32) -> Duration {
    let stat = read(process, "stat");
    // The name before it is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // User and system time are the 14th and 15th field, of which two are before the split.
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| TICK * ticks.parse::<u32>().unwrap())
        .sum()
}

/// Returns the memory that a process has in use, in bytes.
///
/// # Panics
///
/// If there is no such process.
pub fn resident(process: u32) -> u64 {
    let status = read(process, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024
}

fn read(process: u32, file: &str) -> String {
    let path = format!("/proc/{process}/{file}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_uses_time_and_memory() {
        let process = std::process::id();
        let before = cpu_time(process);
        let mut kept = vec![0_u8; 64 << 20];
        while cpu_time(process) < before + 2 * TICK {
            for byte in kept.iter_mut().step_by(4096) {
                *byte = byte.wrapping_add(1);
            }
        }
        assert!(resident(process) > kept.len() as u64);
    }
}
