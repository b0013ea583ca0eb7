//! Completions, as the shells that are here use them.

use std::process::Command;

use super::{Ran, output};

const NOWHERE: &str = "http://127.0.0.1:1";

#[test]
fn bash_completes_commands_and_options() {
    let script = output(NOWHERE, &["completions", "bash"]);
    script.ended(0);
    let complete = |words: &str| {
        let ask = "COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                   _leasehold leasehold \"${COMP_WORDS[COMP_CWORD]}\"; echo \"${COMPREPLY[*]}\"";
        let mut bash = Command::new("bash");
        let asked = Ran::of(bash.args(["-c", &format!("{}\n{ask}", script.out), "bash", words]));
        asked.ended(0);
        asked.out
    };
    assert_eq!(complete("leasehold che"), "check-token\n");
    assert!(complete("leasehold to").contains("top"));
    assert_eq!(complete("leasehold wait --hel"), "--held --help\n");
    assert_eq!(complete("leasehold ls --page-s"), "--page-size\n");
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(NOWHERE, &["completions", shell]).out;
        assert!(script.contains("check-token"), "{shell}: {script}");
    }
    assert_eq!(output(NOWHERE, &["completions", "csh"]).code, Some(64));
}
