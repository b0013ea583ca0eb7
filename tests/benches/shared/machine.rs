//! Description of the machine that the figures were measured on.

use std::{fs, process::Command};

/// Returns facts about the machine and its programs, by their names; `peers` are the versions that rivals told.
pub(crate) fn look(peers: &[String]) -> Vec<(&'static str, String)> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<_> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: Option<f64> = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let machine = format!(
        "{} × {}, {:.0} GiB",
        models.len(),
        models.first().unwrap_or(&"unknown processor"),
        kib.unwrap_or(f64::NAN) / 1024.0 / 1024.0
    );
    // The commit, and whether it was changed since.
    let revision = said(
        "git",
        &["describe", "--always", "--dirty", "--exclude", "*"],
    );
    let redis = said("redis-server", &["--version"]);
    let version = redis
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="));
    let leasehold = format!("{} ({revision})", env!("CARGO_PKG_VERSION"));
    let mut facts = vec![
        ("Machine", machine),
        ("Kernel", said("uname", &["-sr"])),
        ("Leasehold", leasehold),
        ("Redis", version.unwrap_or(&redis).to_owned()),
        ("Compiler", said("rustc", &["--version"])),
        ("Date", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
    ];
    if !peers.is_empty() {
        facts.push(("Rivals", peers.join(", ")));
    }
    facts
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}
