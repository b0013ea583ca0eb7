//! Manual pages, made from the definition of the command line: leasehold(1), and a page for each command.

use std::{fs::File, io, path::Path};

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

/// Sections beside what the definition of the command says.
const TAIL: &str = r".SH ENVIRONMENT
The options above name the variables that replace them. In addition:
.TP
.B LEASEHOLD_TOKEN
The client's bearer token, if no file with it is named. No option takes it, because every user of the machine can read the
command line.
.TP
.B LEASEHOLD_PROFILES
File with profiles, instead of leasehold/config.toml below $XDG_CONFIG_HOME or ~/.config.
.TP
.B NO_COLOR
Turns colours off.
.TP
.B TRACEPARENT\fR, \fBTRACESTATE
The W3C trace context of the process that starts the command;
.B \-\-traceparent
replaces both.
.B bench
uses only that option. A malformed context is ignored, with a warning.
.TP
.B SSL_CERT_FILE\fR, \fBSSL_CERT_DIR
Location of the certificates that the system trusts, used without
.BR \-\-ca .
.PP
.BR leasehold\-run (1)
and
.BR leasehold\-elect (1)
list the variables that they set for their commands.
.SH EXAMPLES
.nf
leasehold \-\-endpoint https://locks.example:7420 run nightly\-report \-\- make\-report
leasehold elect scheduler \-\-value here \-\- ./scheduler
leasehold watch orders/
.fi
.SH SEE ALSO
.BR leasehold\-server (8)
";

/// Writes the pages into a folder, each under its name.
pub(crate) fn write(definition: Command, folder: &Path) -> io::Result<()> {
    let mut root = definition
        .disable_help_subcommand(true)
        .subcommand_help_heading("COMMANDS")
        .subcommand_value_name("command");
    root.build();
    let commands = root.get_subcommands();
    for command in commands.filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        // The options that all commands have are on the tool's page.
        let own = |arg: clap::Arg| {
            let is_common = arg.is_global_set();
            arg.hide(is_common)
        };
        let see_also = ".SH SEE ALSO\n.BR leasehold (1),\nwhich has the options and the exit codes of all commands\n";
        page(command.clone().mut_args(own), "NOTES", see_also, folder)?;
    }
    page(root, "EXIT STATUS", TAIL, folder)
}

/// Writes one page, with the text after the help under a heading, and a tail.
fn page(command: Command, after: &str, tail: &str, folder: &Path) -> io::Result<()> {
    let has_options = command.get_arguments().any(|arg| !arg.is_hide_set());
    let has_commands = command.has_subcommands();
    let notes = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string);
    let page = Man::new(command)
        .source("Leasehold")
        .manual("User commands");
    let mut file = File::create(folder.join(page.get_filename()))?;
    page.render_title(&mut file)?;
    page.render_name_section(&mut file)?;
    page.render_synopsis_section(&mut file)?;
    page.render_description_section(&mut file)?;
    if has_options {
        page.render_options_section(&mut file)?;
    }
    if has_commands {
        page.render_subcommands_section(&mut file)?;
    }
    if let Some(notes) = notes {
        let mut section = Roff::new();
        section.control("SH", [after]).control("nf", []);
        for line in notes.lines() {
            section.text([roman(line)]);
        }
        section.control("fi", []);
        section.to_writer(&mut file)?;
    }
    io::Write::write_all(&mut file, tail.as_bytes())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::fs;

    use super::*;
    use crate::args;

    #[test]
    fn each_command_has_a_page_with_its_options_and_notes() {
        let folder = tempfile::tempdir().unwrap();
        write(args::definition(), folder.path()).unwrap();
        let read = |name: &str| {
            let page = fs::read_to_string(folder.path().join(name)).unwrap();
            page.replace("\\-", "-").replace("\\*(Aq", "'")
        };
        let tool = read("leasehold.1");
        let definition = args::definition();
        let commands = definition.get_subcommands();
        let mut seen = 0;
        for command in
            commands.filter(|command| !command.is_hide_set() && command.get_name() != "help")
        {
            let name = command.get_name();
            assert!(tool.contains(&format!("\nleasehold-{name}(1)\n")), "{name}");
            let page = read(&format!("leasehold-{name}.1"));
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                // The others are the tool's.
                let is_here =
                    page.contains(&format!("--{option}")) || tool.contains(&format!("--{option}"));
                assert!(is_here, "{name} --{option}");
            }
            assert!(!page.contains("--endpoint\\fR"), "{page}");
            let notes = command.get_after_long_help().or(command.get_after_help());
            for line in notes.map(ToString::to_string).unwrap_or_default().lines() {
                let words = line
                    .trim()
                    .trim_start_matches(['.', '\''])
                    .replace('\\', "\\\\");
                assert!(page.contains(&words), "{name}: {line}");
            }
            seen += 1;
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), seen + 1);
        assert!(tool.contains("77   unknown identity"), "{tool}");
    }
}
