//! Profiles: named endpoints with their credentials, in a TOML file of the user. Secrets are in files of their own, or come from
//! commands; the file has none, and nothing here prints one.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use toml::Spanned;

/// Variable with the path of the file.
const FILE: &str = "LEASEHOLD_PROFILES";

/// Bearer token that a command printed.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Connection settings of a profile. Paths are absolute, or relative to the working directory.
#[derive(Default, Debug)]
pub(crate) struct Profile {
    pub(crate) endpoint: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) server_name: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) token_command: Option<TokenCommand>,
    pub(crate) allow_plaintext_token: bool,
}

/// Command that prints a token, and the place that names it.
#[derive(Debug)]
pub(crate) struct TokenCommand {
    words: Vec<String>,
    place: String,
}

impl TokenCommand {
    /// Runs the command, and returns what it printed. Its standard error is the tool's.
    pub(crate) fn run(&self) -> Result<Token, String> {
        let Self { words, place } = self;
        let Some((program, arguments)) = words.split_first() else {
            return Err(format!("{place}: token-command is empty"));
        };
        let ended = Command::new(program)
            .args(arguments)
            .stdin(Stdio::inherit())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("{place}: failed to run {program:?}: {error}"))?;
        if !ended.status.success() {
            let status = ended.status;
            return Err(format!("{place}: {program:?} failed with {status}"));
        }
        // What it printed is not shown, whatever is wrong with it.
        let token = String::from_utf8(ended.stdout).unwrap_or_default();
        match token.trim() {
            "" => Err(format!("{place}: {program:?} printed no token")),
            token => Ok(Token(token.to_owned())),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    profile: BTreeMap<String, Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Section {
    endpoint: Option<String>,
    ca: Option<PathBuf>,
    cert: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    server_name: Option<String>,
    token_file: Option<Spanned<PathBuf>>,
    token_command: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    allow_plaintext_token: bool,
}

impl Profile {
    /// Reads the profile of this name from the user's file.
    ///
    /// # Errors
    ///
    /// Fails with a message that names the file, and the line if there is one.
    pub(crate) fn load(name: &str) -> Result<Self, String> {
        let path = path(|variable| env::var_os(variable))?;
        Self::load_from(&path, name)
    }

    fn load_from(path: &Path, name: &str) -> Result<Self, String> {
        let file = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| format!("failed to read {file} for the profile {name:?}: {error}"))?;
        let mode = mode_of(path)?;
        if mode & 0o022 != 0 {
            return Err(format!(
                "{file} decides where credentials go, and other users may change it: chmod go-w {file}"
            ));
        }
        let document: Document = toml::from_str(&text).map_err(|error| {
            let place = place(path, &text, error.span().map_or(0, |span| span.start));
            format!("{place}: {}", error.message())
        })?;
        let mut sections = document.profile;
        let Some(section) = sections.remove(name) else {
            let names: Vec<String> = sections.into_keys().collect();
            return Err(match names.is_empty() {
                true => format!("{file} has no profile {name:?}, and no other"),
                false => format!(
                    "{file} has no profile {name:?}; it has {}",
                    names.join(", ")
                ),
            });
        };
        section.check(path, &text)
    }
}

impl Section {
    fn check(self, path: &Path, text: &str) -> Result<Profile, String> {
        let place = |at: usize| place(path, text, at);
        match (&self.cert, &self.key) {
            (Some(cert), None) => {
                return Err(format!("{}: cert needs a key", place(cert.span().start)));
            }
            (None, Some(key)) => {
                return Err(format!("{}: key needs a cert", place(key.span().start)));
            }
            _ => {}
        }
        if let (Some(_), Some(command)) = (&self.token_file, &self.token_command) {
            let place = place(command.span().start);
            return Err(format!(
                "{place}: token-file and token-command exclude each other"
            ));
        }
        // Paths are relative to the file, wherever the tool is started.
        let folder = path.parent().unwrap_or(Path::new(""));
        for secret in [&self.key, &self.token_file].into_iter().flatten() {
            let place = place(secret.span().start);
            let secret = folder.join(secret.get_ref());
            let mode = mode_of(&secret).map_err(|error| format!("{place}: {error}"))?;
            if mode & 0o077 != 0 {
                let secret = secret.display();
                return Err(format!(
                    "{place}: other users may read the secret in {secret}: chmod 600 {secret}"
                ));
            }
        }
        let within = |file: PathBuf| folder.join(file);
        Ok(Profile {
            endpoint: self.endpoint,
            ca: self.ca.map(within),
            cert: self.cert.map(|cert| within(cert.into_inner())),
            key: self.key.map(|key| within(key.into_inner())),
            server_name: self.server_name,
            token_file: self.token_file.map(|file| within(file.into_inner())),
            token_command: self.token_command.map(|command| TokenCommand {
                place: place(command.span().start),
                words: command.into_inner(),
            }),
            allow_plaintext_token: self.allow_plaintext_token,
        })
    }
}

/// Returns the path of the file: the variable's, or below the XDG configuration folder.
fn path(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(file) = set(FILE) {
        return Ok(file);
    }
    // The specification has relative paths ignored.
    let folder = set("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(set("HOME")?.join(".config")));
    match folder {
        Some(folder) => Ok(folder.join("leasehold/config.toml")),
        None => Err(format!(
            "no profile without a file: set {FILE}, XDG_CONFIG_HOME or HOME"
        )),
    }
}

fn mode_of(path: &Path) -> Result<u32, String> {
    let data = fs::metadata(path);
    let data = data.map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    Ok(data.permissions().mode())
}

/// Returns the file and the line of a place in it.
fn place(path: &Path, text: &str, at: usize) -> String {
    let before = text.as_bytes().iter().take(at);
    let line = before.filter(|&&byte| byte == b'\n').count() + 1;
    format!("{}:{line}", path.display())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Writes a file that only its owner may read, and returns the folder.
    fn folder(text: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "config.toml", text, 0o600);
        folder
    }

    fn write(folder: &TempDir, name: &str, text: &str, mode: u32) {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(folder: &TempDir, name: &str) -> Result<Profile, String> {
        Profile::load_from(&folder.path().join("config.toml"), name)
    }

    /// Returns the message about a file, without the folder's path.
    fn mistake(text: &str) -> String {
        let folder = folder(text);
        let error = load(&folder, "prod").unwrap_err();
        error.replace(&format!("{}/", folder.path().display()), "")
    }

    #[test]
    fn a_profile_is_read_with_paths_beside_its_file() {
        let folder = folder(
            "[profile.dev]\n[profile.prod]\nendpoint = \"https://a.example\"\nca = \"ca.pem\"\n\
             token-file = \"prod.token\"\nserver-name = \"locks\"\nallow-plaintext-token = true\n",
        );
        write(&folder, "prod.token", "lh_secret", 0o600);
        let profile = load(&folder, "prod").unwrap();
        assert_eq!(profile.endpoint.as_deref(), Some("https://a.example"));
        assert_eq!(profile.ca, Some(folder.path().join("ca.pem")));
        assert_eq!(profile.token_file, Some(folder.path().join("prod.token")));
        assert_eq!(profile.server_name.as_deref(), Some("locks"));
        assert!(profile.allow_plaintext_token);
        assert_eq!(load(&folder, "dev").unwrap().endpoint, None);
    }

    #[test]
    fn mistakes_name_the_file_and_the_line() {
        for (text, expected) in [
            ("", "config.toml has no profile \"prod\", and no other"),
            (
                "[profile.a]\n[profile.b]",
                "config.toml has no profile \"prod\"; it has a, b",
            ),
            (
                "[profile.prod]\nendpoint = 7",
                "config.toml:2: invalid type: integer `7`, expected a string",
            ),
            (
                "[profile.prod]\n\nendpont = \"a\"",
                "config.toml:3: unknown field `endpont`",
            ),
            (
                "[profile.prod]\ntoken = \"lh_secret\"",
                "config.toml:2: unknown field `token`",
            ),
            ("\n[profile.prod\n", "config.toml:2: "),
            (
                "[profile.prod]\ncert = \"a\"",
                "config.toml:2: cert needs a key",
            ),
            (
                "[profile.prod]\nkey = \"a\"",
                "config.toml:2: key needs a cert",
            ),
            (
                "[profile.prod]\ntoken-file = \"a\"\ntoken-command = [\"b\"]",
                "config.toml:3: token-file and token-command exclude each other",
            ),
            (
                "[profile.prod]\ntoken-file = \"none\"",
                "config.toml:2: failed to read none: ",
            ),
        ] {
            let told = mistake(text);
            assert!(told.starts_with(expected), "{text:?}: {told}");
            assert!(!told.contains("lh_secret"), "{told}");
        }
    }

    #[test]
    fn files_that_others_may_read_or_change_are_refused() {
        let folder = folder("[profile.prod]\ntoken-file = \"prod.token\"\n");
        for (mode, refused) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            write(&folder, "prod.token", "lh_secret", mode);
            let told = load(&folder, "prod").err().unwrap_or_default();
            assert_eq!(
                told.contains("config.toml:2: other users may read"),
                refused,
                "{told}"
            );
        }
        write(&folder, "config.toml", "[profile.prod]\n", 0o644);
        assert!(load(&folder, "prod").is_ok());
        write(&folder, "config.toml", "[profile.prod]\n", 0o664);
        assert!(load(&folder, "prod").unwrap_err().contains("chmod go-w"));
    }

    #[test]
    fn a_command_prints_the_token_and_nobody_else_does() {
        let run = |script: &str| {
            let command = TokenCommand {
                words: ["sh", "-c", script].map(str::to_owned).to_vec(),
                place: "config.toml:2".to_owned(),
            };
            command.run()
        };
        let token = run("echo lh_secret").unwrap();
        assert_eq!(token.secret(), "lh_secret");
        assert!(!format!("{token:?}").contains("secret"));
        for (script, expected) in [
            (
                "echo lh_secret; exit 3",
                "config.toml:2: \"sh\" failed with exit status: 3",
            ),
            ("true", "config.toml:2: \"sh\" printed no token"),
        ] {
            assert_eq!(run(script).unwrap_err(), expected);
        }
    }

    #[test]
    fn the_file_is_where_the_user_says_or_the_specification() {
        let of = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| OsString::from(value))
            };
            path(variable).map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/ann");
        let expected = "/home/ann/.config/leasehold/config.toml";
        assert_eq!(of(&[home]).unwrap(), expected);
        assert_eq!(of(&[home, ("XDG_CONFIG_HOME", "here")]).unwrap(), expected);
        let xdg = of(&[home, ("XDG_CONFIG_HOME", "/etc/x")]).unwrap();
        assert_eq!(xdg, "/etc/x/leasehold/config.toml");
        assert_eq!(of(&[home, (FILE, "mine.toml")]).unwrap(), "mine.toml");
        assert!(of(&[]).is_err());
    }
}
