//! Tests of the command line's definition, and of its errors.
use super::*;

#[test]
fn the_definition_is_consistent() {
    definition().debug_assert();
}

#[test]
fn no_help_shows_the_value_of_a_variable() {
    let definition = definition();
    let commands = definition.get_subcommands().chain([&definition]);
    let shown = commands.flat_map(clap::Command::get_arguments);
    let shown = shown.filter(|arg| !arg.is_hide_env_values_set());
    assert_eq!(shown.map(Arg::get_id).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn no_line_of_the_notes_is_wrapped_again() {
    let definition = definition();
    let commands = definition.get_subcommands().chain([&definition]);
    let notes = commands.filter_map(|it| it.get_after_long_help().or(it.get_after_help()));
    let notes: Vec<_> = notes.map(ToString::to_string).collect();
    let wide = notes.iter().flat_map(|text| text.lines());
    let wide: Vec<_> = wide.filter(|line| line.chars().count() > 100).collect();
    assert_eq!(wide, [""; 0]);
}

/// Reads a command line, and returns the error message for a mistake in it.
fn mistake(line: &str) -> String {
    let words = std::iter::once("leasehold").chain(line.split(' '));
    let read = Args::read_from(words.map(OsString::from));
    read.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn the_usage_after_a_mistake_shows_no_option_as_required() {
    let run = "leasehold run [OPTIONS] <NAME>... -- <COMMAND>...";
    let elect = "leasehold elect [OPTIONS] <NAME> -- <COMMAND>...";
    let release = "leasehold release [OPTIONS] <NAME>";
    for (line, usage) in [
        ("run a --permits 2 -- true", run),
        ("run a --ttl 5s --shared --semaphore 2 -- true", run),
        ("run a --semaphore 2 --permits 3 -- true", run),
        ("run a --permits-at-least 2 -- true", run),
        ("run a --wait 5s", run),
        ("run a --nothing -- true", run),
        ("run a --json -- true", run),
        ("elect --ttl 5s -- true", elect),
        ("--endpoint a release --force", release),
        ("--endpoint a --nothing ls", "leasehold [OPTIONS] <COMMAND>"),
    ] {
        let told = mistake(line);
        let usage = format!("Usage: {usage}\n");
        assert!(told.contains(&usage), "{line}: {told}");
    }
}

#[test]
fn negative_values_are_refused_as_what_they_are() {
    for command in ["run a", "elect e"] {
        for option in ["--ttl", "--lock-delay", "--grace"] {
            for value in [" -5s", "=-5s", " -0.5m"] {
                let told = mistake(&format!("{command} {option}{value} -- true"));
                let says = format!("for '{option} <DURATION>': a duration can't be negative");
                assert!(told.contains(&says), "{told}");
            }
        }
    }
    for line in [
        "run a --wait -1h -- true",
        "status --timeout -1s",
        "bench --hold -1ms",
        "bench --duration -1s",
        "bench --warm-up=-1s",
        "bench --ttl -1d",
    ] {
        let told = mistake(line);
        assert!(told.contains("a duration can't be negative"), "{line}");
    }
    for (line, expected) in [
        ("bench --clients -1", "-1 is not in 1..=10000"),
        ("run a --semaphore -1 -- true", "-1 is not in 1..=1000000"),
        // A value that was forgotten.
        (
            "run a --ttl --shared -- true",
            "invalid value '--shared' for '--ttl",
        ),
        ("run a --wait -- true", "invalid value '--' for '--wait"),
    ] {
        let told = mistake(line);
        assert!(told.contains(expected), "{line}: {told}");
    }
}

#[test]
fn commands_that_run_others_refuse_json() {
    let refused = "--json is not for this command";
    for line in [
        "run a --json -- true",
        "--json run a -- true",
        "elect e --json -- true",
    ] {
        assert!(mistake(line).contains(refused), "{line}");
    }
    // That one is the command's.
    assert_eq!(mistake("run a -- ls --json"), "");
    for (line, asks) in [
        ("run a -- ls --json", false),
        ("--json run", true),
        ("ls --json", true),
    ] {
        let words = line.split(' ').map(OsString::from);
        assert_eq!(asks_for_json(words), asks, "{line}");
    }
}
