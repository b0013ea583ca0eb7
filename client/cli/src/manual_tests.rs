//! Manual page, made from the definition of the command line.
//!
//! A test compares `ops/debian/leasehold/leasehold.1` with it. After a wanted change: `MANUAL=overwrite cargo test -p
//! leasehold manual`.

use std::{env, fmt::Write, fs, path::Path};

use clap::{Arg, ArgAction, Command, CommandFactory, builder::PossibleValue};

use crate::args::Args;

const PAGE: &str = "../../ops/debian/leasehold/leasehold.1";

const HEAD: &str = r#".\" Made of the definition of the command line: see client/cli/src/manual_tests.rs.
.TH LEASEHOLD 1 "" "Leasehold" "User commands"
.nh
.SH NAME
leasehold \- locks and elections of a Leasehold coordinator
.SH SYNOPSIS
.B leasehold
[\fIoption\fR]... \fIcommand\fR [\fIargument\fR]...
.SH DESCRIPTION
Runs commands while holding a lock or leading an election, shows what coordinators know, and measures them.
"#;

const OPTIONS: &str = r"Options may come before the command or after it.
.B \-\-help
prints this help, for one command or for all, and
.B \-\-version
prints the version.
";

/// Variables that no option names.
const ENVIRONMENT: &str = r"The options above name the variables that replace them. In addition:
.TP
.B LEASEHOLD_TOKEN
The client's bearer token, if no file with it is named. No option takes it, because every user of the machine can read the
command line.
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
The descriptions of
.B run
and
.B elect
list the variables that they set for their commands.
";

const TAIL: &str = r".SH EXAMPLES
.nf
leasehold \-\-endpoint https://locks.example:7420 run nightly\-report \-\- make\-report
leasehold elect scheduler \-\-value here \-\- ./scheduler
leasehold watch orders/
.fi
.SH SEE ALSO
.BR leasehold\-server (8)
";

/// Returns the whole page.
fn page() -> String {
    let mut root = Args::command();
    root.build();
    let mut page = HEAD.to_owned();
    section(&mut page, "OPTIONS");
    page.push_str(OPTIONS);
    for option in options(&root) {
        tell(&mut page, option);
    }
    section(&mut page, "COMMANDS");
    for command in root
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        describe(&mut page, command);
    }
    section(&mut page, "ENVIRONMENT");
    page.push_str(ENVIRONMENT);
    let told = root.get_after_help().map(ToString::to_string);
    section(&mut page, "EXIT STATUS");
    verbatim(&mut page, &told.unwrap_or_default());
    page + TAIL
}

/// Describes one command, and its arguments besides the global ones.
fn describe(page: &mut String, command: &Command) {
    let _ = writeln!(page, ".TP\n.B {}", escaped(command.get_name()));
    let about = command.get_long_about().or(command.get_about());
    paragraphs(page, &about.map(ToString::to_string).unwrap_or_default());
    page.push_str(".RS\n");
    for alias in command.get_all_aliases() {
        let _ = writeln!(page, ".PP\nAlso\n.BR {} .", escaped(alias));
    }
    for argument in command.get_positionals().chain(options(command)) {
        if !argument.is_global_set() {
            tell(page, argument);
        }
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        verbatim(page, &after.to_string());
    }
    page.push_str(".RE\n");
}

/// Returns its options, except those that print help or the version.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    use ArgAction::{Help, HelpLong, HelpShort, Version};
    command.get_arguments().filter(|argument| {
        let prints = matches!(argument.get_action(), Help | HelpLong | HelpShort | Version);
        !argument.is_positional() && !prints
    })
}

/// Describes one option or argument.
fn tell(page: &mut String, argument: &Arg) {
    let values = argument.get_value_names().unwrap_or_default();
    let values: String = values
        .iter()
        .map(|value| format!(" \\fI{}\\fR", escaped(value)))
        .collect();
    let name = match argument.get_long() {
        Some(long) => format!("\\fB\\-\\-{}\\fR", escaped(long)),
        None => String::new(),
    };
    let takes = argument.get_action().takes_values();
    let values = if takes { values } else { String::new() };
    let many = argument
        .get_num_args()
        .is_some_and(|number| number.max_values() > 1);
    let many = if many && takes { "..." } else { "" };
    let _ = writeln!(page, ".TP\n{}{many}", format!("{name}{values}").trim());
    let help = argument.get_long_help().or(argument.get_help());
    paragraphs(page, &help.map(ToString::to_string).unwrap_or_default());
    let mut said = Vec::new();
    if let Some(variable) = argument.get_env() {
        said.push(format!("env: {}", variable.to_string_lossy()));
    }
    let default: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if takes && !argument.is_hide_default_value_set() && !default.is_empty() {
        said.push(format!("default: {}", default.join(" ")));
    }
    let possible = argument.get_possible_values();
    if takes && !possible.is_empty() {
        let names: Vec<_> = possible.iter().map(PossibleValue::get_name).collect();
        said.push(format!("possible values: {}", names.join(", ")));
    }
    for said in said {
        let _ = writeln!(page, "[{}]", escaped(&said));
    }
}

fn section(page: &mut String, name: &str) {
    let _ = writeln!(page, ".SH {name}");
}

/// Adds text that troff may reflow.
fn paragraphs(page: &mut String, text: &str) {
    for line in text.lines() {
        let line = if line.is_empty() {
            ".sp".to_owned()
        } else {
            escaped(line)
        };
        let _ = writeln!(page, "{line}");
    }
}

/// Adds text whose lines stay as they are.
fn verbatim(page: &mut String, text: &str) {
    page.push_str(".PP\n.nf\n");
    for line in text.trim_end().lines() {
        let _ = writeln!(page, "{}", escaped(line));
    }
    page.push_str(".fi\n");
}

/// Escapes text for troff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // At the beginning of a line these are commands.
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[test]
fn the_manual_page_tells_what_the_help_tells() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if env::var_os("MANUAL").is_some_and(|asked| asked == "overwrite") {
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == page,
        "{PAGE} is not as the help is: MANUAL=overwrite cargo test -p leasehold manual"
    );

    // And so does whatever `--help` shows of each command, in its own words.
    let plain = page
        .replace("\\fB", "")
        .replace("\\fI", "")
        .replace("\\fR", "");
    let plain: String = plain
        .replace("\\-", "-")
        .replace("\\&", "")
        .replace("\\e", "\\");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = words(&plain);
    let mut root = Args::command();
    root.build();
    for command in root
        .get_subcommands_mut()
        .filter(|command| command.get_name() != "help")
    {
        let help = command.clone().term_width(0).render_long_help().to_string();
        for line in help.lines().map(words) {
            let names = line.split(' ').filter(|word| word.starts_with("--"));
            for name in names {
                assert!(plain.contains(name), "{}: {name}", command.get_name());
            }
            let is_heading = line.ends_with(':') || line.starts_with("Usage:");
            let is_option = line.starts_with('-') || line.starts_with("Print help");
            let told = line.trim_matches(['<', '>', '[', ']', '.']);
            let is_told = is_heading || is_option || plain.contains(told);
            assert!(is_told, "{}: {line}", command.get_name());
        }
    }
}
