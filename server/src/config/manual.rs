//! Manual page leasehold-server(8), made from the definition of the command line.

use std::io;

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, italic, roman},
};

/// Sections beside what the definition of the command says.
const TAIL: &str = r#".SH SIGNALS
.TP
.B SIGHUP
Read the configuration anew, as a whole or not at all.
What needs a restart is told in the log.
.TP
.BR SIGTERM ", " SIGINT
Drain: health says that it does not serve, clients move on to other coordinators, and it ends within \fBdrain\-timeout\fR.
Clients that find no other coordinator keep their locks until their leases run out, and resume them when it is back.
.SH EXIT STATUS
.TP
.B 0
It was told to end, or the command succeeded.
.TP
.B 1
Something failed: a port in use, a coordinator that is not ready, a bootstrap that was refused.
.TP
.B 6
Something is wrong with the store (\fBcheck\-config \-\-connect\fR).
.TP
.B 64
The command line, the configuration or a file that it names makes no sense.
.TP
.B 69
A server of the store can't be reached (\fBcheck\-config \-\-connect\fR).
.SH ENVIRONMENT
The options name the variables that replace them.
An empty variable counts as not set.
The log and \fBcheck\-config\fR warn of variables that begin with LEASEHOLD_ and are no settings.
.TP
.B OTEL_EXPORTER_OTLP_HEADERS
Headers for the collector of traces, some of which may be secrets.
.SH FILES
.TP
.I /etc/leasehold/leasehold.toml
The configuration of the service.
.TP
.I /etc/default/leasehold\-server
The environment of the service.
.SH SEE ALSO
.BR leasehold (1),
.I /usr/share/doc/leasehold\-server/docs/operations.md
"#;

const DESCRIPTION: &str = r".SH DESCRIPTION
Serves locks and elections over gRPC and HTTP, and metrics and health on a port of their own.
A client holds one stream; while it is alive, its locks are renewed in the store, and when it ends they are released and handed to
the next waiter.
.PP
Every setting is an option, an environment variable and a key of the configuration file: \fBstore\-timeout\fR is
\fB\-\-store\-timeout\fR and \fBLEASEHOLD_STORE_TIMEOUT\fR.
Options win over the environment, the environment over the file.
";

/// Returns the page.
pub(super) fn page(definition: Command) -> io::Result<String> {
    let usage = "leasehold-server [--config FILE] [--SETTING VALUE]... [COMMAND]";
    let mut definition = definition
        .override_usage(usage)
        .disable_help_subcommand(true);
    definition.build();
    let commands = commands(&definition);
    let page = Man::new(definition)
        .section("8")
        .source("Leasehold")
        .manual("System administration");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    text.extend(DESCRIPTION.as_bytes());
    commands.to_writer(&mut text)?;
    page.render_options_section(&mut text)?;
    text.extend(TAIL.as_bytes());
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Describes the commands, each with the arguments of its own.
fn commands(definition: &Command) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["COMMANDS"]);
    section.text([roman(
        "Without one, it serves. The commands take the same options.",
    )]);
    let commands = definition.get_subcommands();
    for command in commands.filter(|command| !command.is_hide_set()) {
        section.control("TP", []);
        section.text([bold(command.get_name())]);
        text(
            &mut section,
            command.get_long_about().or(command.get_about()),
        );
        section.control("RS", []);
        for arg in command.get_arguments() {
            if arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version") {
                continue;
            }
            section.control("TP", []);
            match arg.get_long() {
                Some(long) => section.text([bold(format!("--{long}"))]),
                None => section.text([italic(arg.get_id().as_str().to_uppercase())]),
            };
            text(&mut section, arg.get_long_help().or(arg.get_help()));
        }
        section.control("RE", []);
    }
    section
}

fn text(section: &mut Roff, styled: Option<&clap::builder::StyledStr>) {
    for line in styled.map(ToString::to_string).unwrap_or_default().lines() {
        match line.trim() {
            "" => section.control("IP", []),
            line => section.text([roman(line)]),
        };
    }
}
