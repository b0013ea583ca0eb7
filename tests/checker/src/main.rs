//! Program `leasehold-checker`: checks a history, prints counts and violations, and draws the violations.
//!
//! `--brief` prints the counts in one line. It exits with 1 if there are violations, and with 2 if the history can't be read.
#![expect(clippy::print_stdout, reason = "the report is the program's output")]

use std::{env, error::Error, fs, path::Path, process::ExitCode};

use leasehold_checker::{Limits, Story, check, read, report, timeline};

/// Violations that are printed; further ones are counted.
const PRINTED: usize = 50;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let brief = arguments.iter().position(|argument| argument == "--brief");
    let brief = brief.map(|place| arguments.remove(place)).is_some();
    let (directory, drawing) = match &arguments[..] {
        [directory] => (directory, None),
        [directory, option, file] if option == "--timeline" => (directory, Some(file)),
        _ => {
            eprintln!("usage: leasehold-checker DIRECTORY [--timeline FILE] [--brief]");
            return ExitCode::from(2);
        }
    };
    match run(directory, drawing.map(String::as_str), brief) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(directory: &str, drawing: Option<&str>, brief: bool) -> Result<ExitCode, Box<dyn Error>> {
    let lines = read(Path::new(directory))?;
    if lines.is_empty() {
        return Err(format!("{directory} has no history").into());
    }
    let story = Story::tell(lines.clone())?;
    let verdict = check(&story, Limits::default());
    if brief {
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
    if let Some(file) = drawing {
        fs::write(file, timeline::draw(&story, &verdict.violations))?;
        println!("timeline: {file}");
    }
    Ok(ExitCode::from(1))
}
