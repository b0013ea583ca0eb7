//! Name of a client that sets none: its program, host and process, by which operators find it.

use std::{env, path::Path, process};

/// Most bytes of the program's name.
const PROGRAM: usize = 32;
/// Most bytes of the host's name.
const HOST: usize = 64;

/// Returns the name `PROGRAM@HOST/PID` of this process.
pub(crate) fn default() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_stem().unwrap_or_default();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    named(&program.to_string_lossy(), &host, process::id())
}

fn named(program: &str, host: &str, process: u32) -> String {
    format!("{}@{}/{process}", part(program, PROGRAM), part(host, HOST))
}

/// Returns the text without control characters, which a coordinator would refuse, and with at most so many bytes.
fn part(text: &str, most: usize) -> String {
    let mut part: String = text.chars().filter(|c| !c.is_control()).collect();
    while part.len() > most {
        part.pop();
    }
    if part.is_empty() {
        part.push_str("unknown");
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_have_no_control_characters() {
        assert_eq!(named("billing", "vm", 7), "billing@vm/7");
        assert_eq!(named("b\n\u{7f}\u{85}ill", "", 7), "bill@unknown/7");
        let long = named(&"é".repeat(300), &"h".repeat(300), u32::MAX);
        let (program, host) = ("é".repeat(16), "h".repeat(64));
        assert_eq!(long, format!("{program}@{host}/{}", u32::MAX));
        let name = default();
        assert!(name.ends_with(&format!("/{}", process::id())), "{name}");
    }
}
