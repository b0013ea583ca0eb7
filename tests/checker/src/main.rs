//! Program `leasehold-checker`: checks a history, prints counts and violations, and draws the violations.
//!
//! `--brief` prints the counts in one line. It exits with 1 if there are violations, and with 2 if the history can't be read.
#![expect(clippy::print_stdout, reason = "the report is the program's output")]

use std::{error::Error, fs, path::PathBuf, process::ExitCode};

use clap::Parser;
use leasehold_checker::{Limits, Story, check, read, report, timeline};

/// Violations that are printed; further ones are counted.
const PRINTED: usize = 50;

#[derive(Parser)]
struct Options {
    directory: PathBuf,
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    #[arg(long)]
    brief: bool,
}

fn main() -> ExitCode {
    run(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let lines = read(&options.directory)?;
    if lines.is_empty() {
        return Err(format!("{} has no history", options.directory.display()).into());
    }
    let story = Story::tell(lines.clone())?;
    let verdict = check(&story, Limits::default());
    if options.brief {
        println!("{}", report::brief(&lines, &story, &verdict));
    } else {
        print!("{}", report::summary(&lines, &story, &verdict));
        for excused in verdict.excused.iter().take(PRINTED) {
            println!("excused: {excused}");
        }
    }
    for violation in verdict.violations.iter().take(PRINTED) {
        println!("VIOLATION ({:?}): {}", violation.kind, violation.sentence);
    }
    if verdict.violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &options.timeline {
        fs::write(file, timeline::draw(&story, &verdict.violations))?;
        println!("timeline: {}", file.display());
    }
    Ok(ExitCode::from(1))
}
