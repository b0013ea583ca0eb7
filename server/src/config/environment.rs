//! Environment variables that look like settings but are none. Without a warning, a misspelt setting would silently have no
//! effect.

use std::ffi::OsString;

use super::settings::{SETTINGS, nearest};

/// Prefix of the names of all Leasehold variables.
const OURS: &str = "LEASEHOLD_";

/// Variables other than the settings' own that Leasehold's programs read, or set for the commands that they run. Each is written
/// without [`OURS`].
const OTHERS: [&str; 16] = [
    // The file that settings are read from.
    "CONFIG",
    // Options of the command line, and of the clients.
    "ALLOW_PLAINTEXT_TOKEN",
    "CA",
    "CERT",
    "ENDPOINT",
    "KEY",
    "PROFILE",
    "PROFILES",
    "SERVER_NAME",
    "TOKEN",
    "TOKEN_FILE",
    // Variables that `leasehold run` and `leasehold elect` set for their commands, one of which may be a coordinator.
    "ELECTION",
    "FENCING_TOKEN",
    "LOCKS",
    "LOCK_NAME",
    "PERMITS",
];

/// Returns a warning for each of the environment variables `names` that begins with `LEASEHOLD_` and is unknown, in the order of
/// their names. Kubernetes sets variables for each service; those of a service called `leasehold` begin likewise, and cause no
/// warning. A warning never shows a value, which may be a secret.
pub fn unknown_variables(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let names = names.into_iter();
    let mut unknown: Vec<_> = names
        .filter_map(|name| {
            let name = name.to_string_lossy().into_owned();
            let rest = name.strip_prefix(OURS)?;
            (!is_known(rest) && !is_of_kubernetes(rest)).then_some(name)
        })
        .collect();
    unknown.sort();
    unknown.iter().map(|name| warning(name)).collect()
}

fn is_known(rest: &str) -> bool {
    let name = dashed(rest);
    OTHERS.contains(&rest)
        || SETTINGS
            .iter()
            .any(|setting| setting.name == name && !rest.contains(char::is_lowercase))
}

/// Returns whether Kubernetes derives such a name from a service: `…SERVICE_HOST`, `…SERVICE_PORT`, `…SERVICE_PORT_<name>`, `…PORT`,
/// `…PORT_<number>_<protocol>` and that with `_PROTO`, `_PORT` or `_ADDR`.
fn is_of_kubernetes(rest: &str) -> bool {
    let ends = |tail: &str| {
        rest.strip_suffix(tail)
            .is_some_and(|before| before.is_empty() || before.ends_with('_'))
    };
    let has_named_port = rest.starts_with("SERVICE_PORT_") || rest.contains("_SERVICE_PORT_");
    ends("SERVICE_HOST") || ends("PORT") || has_named_port || has_port_and_protocol(rest)
}

fn has_port_and_protocol(rest: &str) -> bool {
    let words: Vec<&str> = rest.split('_').collect();
    words.windows(3).any(|three| {
        three[0] == "PORT"
            && !three[1].is_empty()
            && three[1].bytes().all(|digit| digit.is_ascii_digit())
            && matches!(three[2], "TCP" | "UDP" | "SCTP")
    })
}

fn warning(name: &str) -> String {
    let rest = name.strip_prefix(OURS).unwrap_or(name);
    let name = name.escape_debug();
    match nearest(&dashed(rest)) {
        Some(nearest) => {
            let nearest = nearest.replace('-', "_").to_ascii_uppercase();
            format!(
                "the environment variable {name} is no setting and has no effect; did you mean {OURS}{nearest}?"
            )
        }
        None => format!(
            "the environment variable {name} is no setting and has no effect; leasehold-server --help lists all settings"
        ),
    }
}

/// Returns the name of a variable as flags are written.
fn dashed(rest: &str) -> String {
    rest.replace('_', "-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(names: &[&str]) -> Vec<String> {
        unknown_variables(names.iter().map(OsString::from))
    }

    #[test]
    fn a_name_that_is_no_setting_is_told_with_the_nearest_one() {
        for (name, nearest) in [
            ("LEASEHOLD_STORRE", "LEASEHOLD_STORE?"),
            ("LEASEHOLD_TLS_CLIENTCA", "LEASEHOLD_TLS_CLIENT_CA?"),
            ("LEASEHOLD_store_timeout", "LEASEHOLD_STORE_TIMEOUT?"),
            ("LEASEHOLD_ADMIN_LISTN", "LEASEHOLD_ADMIN_LISTEN?"),
        ] {
            let warnings = warned(&[name]);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            let words = format!("{name} is no setting and has no effect; did you mean {nearest}");
            assert!(warnings[0].contains(&words), "{warnings:?}");
        }
        let all = warned(&["LEASEHOLD_Z", "LEASEHOLD_FOO", "LEASEHOLD_"]);
        assert_eq!(all.len(), 3, "{all:?}");
        let names = ["LEASEHOLD_ ", "LEASEHOLD_FOO ", "LEASEHOLD_Z "];
        for (warning, name) in all.iter().zip(names) {
            assert!(warning.contains(name), "{all:?}");
            assert!(warning.contains("--help"), "{all:?}");
        }
    }

    #[test]
    fn our_own_names_and_those_of_others_are_passed_over() {
        for setting in SETTINGS {
            assert!(warned(&[&setting.variable()]).is_empty());
        }
        for rest in OTHERS {
            assert!(warned(&[&format!("{OURS}{rest}")]).is_empty(), "{rest}");
        }
        assert!(warned(&["LEASEHOLD", "LEASEHOLDER_X", "STORRE", "PATH"]).is_empty());
    }

    #[test]
    fn variables_of_kubernetes_services_are_passed_over() {
        for service in ["LEASEHOLD", "LEASEHOLD_REDIS"] {
            for rest in [
                "SERVICE_HOST",
                "SERVICE_PORT",
                "SERVICE_PORT_GRPC",
                "PORT",
                "PORT_7420_TCP",
                "PORT_7420_TCP_PROTO",
                "PORT_7420_TCP_PORT",
                "PORT_53_UDP_ADDR",
            ] {
                let name = format!("{service}_{rest}");
                assert!(warned(&[&name]).is_empty(), "{name}");
            }
        }
        for name in [
            "LEASEHOLD_SERVICE_HOSTS",
            "LEASEHOLD_PORT_TCP",
            "LEASEHOLD_PORT_7420",
            "LEASEHOLD_SUPPORT",
        ] {
            assert_eq!(warned(&[name]).len(), 1, "{name}");
        }
    }
}
