mod access;
mod contradictions;
mod file;
mod manual;
mod reference;
mod store_file;

use std::{collections::HashMap, ffi::OsString, fs, path::Path, time::Duration};

use self::file::refused_in_file;
use super::{
    Action, ClientAuth, Config, LogFormat, REFERENCE,
    draft::Draft,
    print::literal,
    settings::{SETTINGS, named},
    unknown_variables,
    value::log_filter,
};
use crate::access::rules::{Granted, Permission, Place, Rules};

fn from(args: &[&str], env: &[(&str, &str)]) -> Result<Action, Vec<String>> {
    let env: HashMap<String, OsString> = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), OsString::from(*value)))
        .collect();
    let args = std::iter::once("leasehold-server").chain(args.iter().copied());
    Config::from_args(args.map(OsString::from), |name| env.get(name).cloned())
}

fn served(args: &[&str], env: &[(&str, &str)]) -> Config {
    match from(args, env).unwrap() {
        Action::Serve(config) => *config,
        other => panic!("does not serve: {other:?}"),
    }
}

/// Returns the arguments of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn printed(args: &[&str], env: &[(&str, &str)]) -> String {
    match from(args, env).unwrap() {
        Action::Print(text) => text,
        other => panic!("does not print: {other:?}"),
    }
}

fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
    from(args, env).unwrap_err().join("\n")
}

fn in_file(text: &str) -> Result<Config, Vec<String>> {
    let mut draft = Draft::default();
    super::file::parse(&mut draft, Path::new("leasehold.toml"), text);
    if draft.errors.is_empty() {
        Ok(draft.config)
    } else {
        Err(draft.errors)
    }
}

#[test]
fn a_log_names_levels_and_what_there_is() {
    for right in [
        "warn",
        "INFO",
        "off",
        "info,leasehold_server=debug",
        "info,h2=trace",
        "leasehold_server::requests=debug",
    ] {
        assert!(log_filter(right).is_ok(), "{right}");
    }
    let wrong = [
        "",
        "warning",
        "infoo",
        "info leasehold_server=debug",
        "leasehold_sever=debug",
        "leasehold_server=verbose",
    ];
    for wrong in wrong {
        let error = log_filter(wrong).unwrap_err();
        assert!(error.starts_with("expected a level"), "{wrong:?}: {error}");
    }
}

#[test]
fn nothing_given_means_the_defaults() {
    assert_eq!(served(&[], &[]), Config::default());
    assert_eq!(in_file("").unwrap(), Config::default());
}

#[test]
fn a_probe_reads_the_same_configuration() {
    for args in [
        ["probe", "--admin-listen", "127.0.0.1:9000"],
        ["--admin-listen", "127.0.0.1:9000", "probe"],
    ] {
        let Action::Probe(config) = from(&args, &[("LEASEHOLD_NAME", "here")]).unwrap() else {
            panic!("{args:?} is a probe");
        };
        assert_eq!(config.admin_listen.port(), 9000, "{args:?}");
        assert_eq!(config.name, "here", "{args:?}");
    }
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leasehold.toml");
    let text = "store-timeout = \"2s\"\nmax-sessions = 7\nname = \"file\"\n";
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();

    let config = served(&["--config", path], &[]);
    assert_eq!(config.store_timeout, Duration::from_secs(2));
    assert_eq!((config.max_sessions, config.name.as_str()), (7, "file"));

    let env = [
        ("LEASEHOLD_STORE_TIMEOUT", "3s"),
        ("LEASEHOLD_CONFIG", path),
        ("LEASEHOLD_NAME", "env"),
    ];
    let config = served(&["--name=flag"], &env);
    assert_eq!(config.store_timeout, Duration::from_secs(3));
    assert_eq!((config.max_sessions, config.name.as_str()), (7, "flag"));

    // The flag's file, not the variable's.
    let other = folder.path().join("other.toml");
    fs::write(&other, "max-sessions = 8\n").unwrap();
    let config = served(&["--config", other.to_str().unwrap()], &env);
    assert_eq!(config.max_sessions, 8);

    let text = printed(&["--print-config", "--name=flag"], &env);
    for line in [
        format!("max-sessions = 7 # file {path}, line 2, column 16"),
        "store-timeout = \"3s\" # environment LEASEHOLD_STORE_TIMEOUT".to_owned(),
        "name = \"flag\" # flag --name".to_owned(),
        "# Locks and sessions show it as flag-XXXXXXXX: each start draws the eight characters."
            .to_owned(),
        "min-ttl = \"1s\" # default".to_owned(),
    ] {
        let mut lines = text.lines();
        assert!(lines.any(|found| found == line), "no {line:?} in\n{text}");
    }
}

#[test]
fn only_known_variables_are_read() {
    // What Kubernetes injects for a service of this name, and what `leasehold run` sets for its child.
    let env = [
        ("LEASEHOLD_PORT", "tcp://10.0.0.1:7420"),
        ("LEASEHOLD_SERVICE_HOST", "10.0.0.1"),
        ("LEASEHOLD_LOCKS", r#"{"a":17}"#),
        ("LEASEHOLD_LOCK_NAME", "a"),
        ("LEASEHOLD_FENCING_TOKEN", "17"),
        ("LEASEHOLD_PERMITS", "2"),
        ("LEASEHOLD_ENDPOINT", "http://localhost:1"),
    ];
    assert_eq!(served(&[], &env), Config::default());
    // Set to nothing is not set, as `${UNSET}` in a compose file is.
    let empty = [("LEASEHOLD_LISTEN", ""), ("LEASEHOLD_CONFIG", "")];
    assert_eq!(served(&[], &empty), Config::default());
}

#[test]
fn every_setting_can_be_given_in_each_way() {
    let values = [
        ("listen", "127.0.0.2:1"),
        ("admin-listen", "[::1]:0"),
        ("insecure", "true"),
        ("tls-cert", "/server.pem"),
        ("tls-key", "/server.key"),
        ("tls-client-ca", "/clients.pem"),
        ("tls-client-auth", "optional"),
        ("tls-client-crl", "/revoked.pem"),
        ("cors-origins", "https://app.example,http://localhost:3000"),
        ("admin-tls", "true"),
        ("page", "false"),
        (
            "page-coordinators",
            "https://locks-1.example:7420,http://localhost:7420",
        ),
        ("token-file", "/tokens"),
        ("jwt-keys", "/jwks.json"),
        ("jwt-issuer", "https://issuer"),
        ("jwt-audience", "locks"),
        ("jwt-identity-claim", "client_id"),
        ("name", "one \"two\" # three"),
        ("store", "rediss+quorum://redis:6380,[::1],10.0.0.1/1"),
        ("store-ca", "/ca.pem"),
        ("store-cert", "/client.pem"),
        ("store-key", "/client.key"),
        ("key-prefix", ""),
        ("store-timeout", "250ms"),
        ("require-store", "true"),
        ("store-connections", "3"),
        // Masters that know nothing of one another have no replicas.
        ("min-replicas", "0"),
        ("replica-timeout", "251ms"),
        ("min-ttl", "2s"),
        ("default-ttl", "3s"),
        ("max-ttl", "4m"),
        ("max-wait", "5h"),
        ("drain-timeout", "6s"),
        ("max-session-age", "7h"),
        ("max-stream-size", "65537"),
        ("keepalive-interval", "7s"),
        ("keepalive-timeout", "8s"),
        ("handshake-timeout", "9s"),
        ("max-connections", "10"),
        ("max-connections-per-address", "9"),
        ("max-sessions", "11"),
        ("max-sessions-per-identity", "10"),
        ("max-locks-per-session", "12"),
        ("max-names-per-acquire", "16"),
        ("max-waiters-per-name", "17"),
        ("max-watchers", "18"),
        ("max-watchers-per-identity", "22"),
        ("max-requests-per-second", "19"),
        ("max-failed-authentications-per-second", "21"),
        ("max-message-size", "70000"),
        ("max-page-size", "20"),
        ("max-concurrent-streams", "13"),
        ("outbound-queue", "14"),
        ("deadlock-detection", "false"),
        ("worker-threads", "15"),
        ("metrics", "false"),
        ("log", "info,leasehold_server=debug"),
        ("log-format", "json"),
        ("audit-log", "/audit.log"),
        ("otlp-endpoint", "http://collector:4317"),
        ("trace-sample", "0.25"),
    ];
    // Given in place of `store`, and tested for itself.
    let settings: Vec<_> = SETTINGS
        .iter()
        .filter(|setting| setting.name != "store-file")
        .collect();
    let names: Vec<_> = settings.iter().map(|setting| setting.name).collect();
    assert_eq!(values.map(|(name, _)| name)[..], names);

    let args: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let config = served(&args, &[]);
    for (setting, (name, value)) in settings.iter().zip(values) {
        assert_eq!((setting.show)(&config).as_deref(), Some(value), "{name}");
        let is_changed = (setting.show)(&Config::default()).as_deref() != Some(value);
        assert_eq!(is_changed, name != "min-replicas", "{name}");
    }
    let replicated = served(&["--min-replicas=2", "--store=redis://h"], &[]);
    assert_eq!(replicated.min_replicas, 2);
    assert_eq!(config.log_format, LogFormat::Json);

    let variables: Vec<_> = settings.iter().map(|setting| setting.variable()).collect();
    let env: Vec<(&str, &str)> = values
        .iter()
        .zip(&variables)
        .filter(|((_, value), _)| !value.is_empty())
        .map(|((_, value), name)| (name.as_str(), *value))
        .collect();
    assert_eq!(served(&["--key-prefix="], &env), config);

    // What is printed is a file that says the same.
    args_print_the_same(&args, &config);
    let text: String = settings
        .iter()
        .zip(values)
        .map(|(setting, (name, value))| format!("{name} = {}\n", literal(setting, value)))
        .collect();
    assert_eq!(in_file(&text).unwrap(), config);
}

fn args_print_the_same(args: &[&str], config: &Config) {
    let mut args = args.to_vec();
    args.push("--print-config");
    assert_eq!(&in_file(&printed(&args, &[])).unwrap(), config);
}

#[test]
fn flags_that_need_no_value() {
    assert!(served(&["--insecure"], &[]).insecure);
    assert!(!served(&["--insecure=false"], &[("LEASEHOLD_INSECURE", "true")]).insecure);
    assert!(served(&["--insecure", "--listen", "0.0.0.0:0"], &[]).insecure);
}

#[test]
fn errors_say_where_a_bad_value_came_from_and_what_was_expected() {
    let mut errors = Vec::new();
    for (args, says) in [
        (
            "--store-timeout 1",
            "store-timeout (flag --store-timeout): expected a duration from 10ms to 1m",
        ),
        ("--drain-timeout=0s", "expected a duration from 1ms"),
        (
            "--max-sessions -1",
            "expected a whole number from 1 to 10000000; found \"-1\"",
        ),
        ("--max-connections 0", "from 1 to 1000000"),
        ("--listen localhost", "expected an IP address and a port"),
        ("--insecure=yes", "expected true or false"),
        ("--key-prefix lh:mine:", "\"lh:\""),
        ("--log a=b=c", "expected a level"),
        ("--log-format xml", "\"human\" or \"json\""),
        ("--tls-client-auth=yes", "\"optional\" or"),
        ("--tls-cert=", "the path of a file with a certificate"),
        ("--trace-sample=1.5", "expected a number from 0 to 1"),
        ("--otlp-endpoint=http://u:hunter2@h:1", "without user"),
        ("--otlp-endpoint=collector:4317", "http://HOST:PORT"),
        (
            "--store postgres://u:hunter2@h",
            "store (flag --store): expected \"memory:\"",
        ),
        (
            "--cors-origins=app.example",
            "expected origins such as https://app.example",
        ),
        ("--stor x", "--store"),
        (
            "--listen 127.0.0.1:1 --listen 127.0.0.1:2",
            "cannot be used multiple times",
        ),
        (
            "--config /nonexistent/leasehold.toml",
            "/nonexistent/leasehold.toml: No such file",
        ),
    ] {
        errors.push((refused(&words(args), &[]), says));
    }
    let nameless = refused(&["--name", ""], &[]);
    errors.push((nameless, "expected 1 to 128 bytes"));
    for (name, value, says) in [
        (
            "LEASEHOLD_MIN_TTL",
            "0s",
            "min-ttl (environment LEASEHOLD_MIN_TTL): expected a duration from 100ms",
        ),
        // Wrong, although a flag overrides it.
        ("LEASEHOLD_MIN_TTL", "soon", "LEASEHOLD_MIN_TTL"),
    ] {
        errors.push((refused(&["--min-ttl=1s"], &[(name, value)]), says));
    }
    for (error, says) in errors {
        assert!(error.contains(says), "no {says:?} in {error:?}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn the_password_is_never_printed() {
    let env = [("LEASEHOLD_STORE", "redis://app:hunter2@h/1")];
    let text = printed(&["--print-config"], &env);
    let line = "store = \"redis://app:***@h/1\" # environment LEASEHOLD_STORE";
    assert!(text.contains(line), "{text}");
    let config = served(&[], &env);
    assert_eq!(config.store.expose(), "redis://app:hunter2@h/1");
    for shown in [text, format!("{config:?}"), printed(&["--help"], &env)] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn help_tells_every_setting_with_variable_and_default() {
    let help = printed(&["--help"], &[]);
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in SETTINGS {
        let name = setting.name;
        assert!(help.contains(&format!("--{name}")), "{name}");
        assert!(words.contains(&setting.variable()), "{name}");
        let meaning = setting.help().split_whitespace().collect::<Vec<_>>();
        let meaning = meaning.join(" ");
        assert!(words.contains(&meaning), "no {meaning:?} in\n{words}");
        if setting.example.is_none() {
            let default = (setting.show)(&Config::default()).unwrap();
            let default = format!("[default: {default}]");
            assert!(words.contains(&default), "{name}");
        }
    }
    // The short help has one sentence for each.
    let short = printed(&["-h"], &[]);
    assert!(short.len() < help.len() * 3 / 4, "{short}");
    assert!(printed(&["--version"], &[]).contains(env!("CARGO_PKG_VERSION")));
}
