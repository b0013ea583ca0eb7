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

/// Reads a command line, and returns the error message for a mistake in it.
fn mistake(line: &str) -> String {
    let words = std::iter::once("leasehold").chain(line.split(' '));
    let read = Args::read_from(words.map(OsString::from));
    read.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn the_usage_after_a_mistake_shows_no_option_as_required() {
    const USAGE: &str = "Usage: leasehold run [OPTIONS] <NAME>... -- <COMMAND>...\n";
    for line in [
        "run a --permits 2 -- true",
        "run a --ttl 5s --shared --semaphore 2 -- true",
        "run a --semaphore 2 --permits 3 -- true",
        "run a --permits-at-least 2 -- true",
        "run a --wait 5s",
        "run a --nothing -- true",
        "run a --json -- true",
    ] {
        let told = mistake(line);
        assert!(told.contains(USAGE), "{line}: {told}");
    }
    let told = mistake("elect --ttl 5s -- true");
    assert!(
        told.contains("Usage: leasehold elect [OPTIONS] <NAME> -- <COMMAND>...\n"),
        "{told}"
    );
    let told = mistake("--endpoint a release --force");
    assert!(
        told.contains("Usage: leasehold release [OPTIONS] <NAME>\n"),
        "{told}"
    );
    let told = mistake("--endpoint a --nothing ls");
    assert!(
        told.contains("Usage: leasehold [OPTIONS] <COMMAND>\n"),
        "{told}"
    );
}

#[test]
fn negative_values_are_refused_as_what_they_are() {
    for command in ["run a", "elect e"] {
        for option in ["--ttl", "--lock-delay", "--grace"] {
            for value in [" -5s", "=-5s", " -0.5m"] {
                let told = mistake(&format!("{command} {option}{value} -- true"));
                assert!(
                    told.contains(&format!(
                        "for '{option} <DURATION>': a duration can't be negative"
                    )),
                    "{told}"
                );
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
        assert!(
            mistake(line).contains("a duration can't be negative"),
            "{line}"
        );
    }
    for (line, expected) in [
        ("bench --clients -1", "-1 is not in 1..=10000"),
        ("run a --semaphore -1 -- true", "-1 is not in 1..=1000000"),
        // A value that was forgotten.
        (
            "run a --ttl --shared -- true",
            "invalid value '--shared' for '--ttl <DURATION>'",
        ),
        (
            "run a --wait -- true",
            "invalid value '--' for '--wait <DURATION>'",
        ),
    ] {
        let told = mistake(line);
        assert!(told.contains(expected), "{line}: {told}");
    }
}

#[test]
fn commands_that_run_others_refuse_json() {
    for line in [
        "run a --json -- true",
        "--json run a -- true",
        "elect e --json -- true",
    ] {
        assert!(
            mistake(line).contains("--json is not for this command"),
            "{line}"
        );
    }
    // That one is the command's.
    assert_eq!(mistake("run a -- ls --json"), "");
    for (line, asks) in [
        ("run a -- ls --json", false),
        ("--json run", true),
        ("ls --json", true),
    ] {
        assert_eq!(
            asks_for_json(line.split(' ').map(OsString::from)),
            asks,
            "{line}"
        );
    }
}
