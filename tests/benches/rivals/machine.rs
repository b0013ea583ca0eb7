//! Description of the machine that the figures were measured on.

use std::{fs, process::Command};

use serde_json::{Value, json};

/// Machine and programs of a measurement.
pub(crate) struct Machine {
    /// Facts by their names.
    pub(crate) facts: Vec<(&'static str, String)>,
}

impl Machine {
    /// Asks the machine; `peers` are the versions that rivals told.
    pub(crate) fn look(peers: &[String]) -> Self {
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
        let rivals = if peers.is_empty() {
            "not measured".to_owned()
        } else {
            peers.join(", ")
        };
        Self {
            facts: vec![
                (
                    "Machine",
                    format!(
                        "{} × {}, {:.0} GiB",
                        models.len(),
                        models.first().unwrap_or(&"unknown processor"),
                        kib.unwrap_or(f64::NAN) / 1024.0 / 1024.0
                    ),
                ),
                ("Kernel", said("uname", &["-sr"])),
                (
                    "Leasehold",
                    format!("{} ({})", env!("CARGO_PKG_VERSION"), revision()),
                ),
                ("Redis", redis()),
                ("Rivals", rivals),
                ("Compiler", said("rustc", &["--version"])),
                ("Date", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
            ],
        }
    }

    pub(crate) fn json(&self) -> Value {
        let facts = self.facts.iter();
        json!(
            facts
                .map(|(name, value)| (*name, value))
                .collect::<std::collections::BTreeMap<_, _>>()
        )
    }
}

/// Returns the commit, and whether it was changed since.
fn revision() -> String {
    said(
        "git",
        &["describe", "--always", "--dirty", "--exclude", "*"],
    )
}

fn redis() -> String {
    let said = said("redis-server", &["--version"]);
    let version = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="));
    version.unwrap_or(&said).to_owned()
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
