//! Paths of the programs under test.

use std::{env, path::PathBuf, process::Command, sync::OnceLock};

/// Variable with the features with which the programs are built, separated by commas: those of this program.
const FEATURES: &str = "LEASEHOLD_TEST_FEATURES";

/// Returns the path of a program of this workspace, built with the profile of this test and never stale: `leasehold-server`,
/// `leasehold` or a helper of this package.
///
/// # Panics
///
/// If it can't be built, or the caller does not run from cargo's target directory (a doc test does not). In an optimized build, if
/// it is none of those that benchmarks run.
pub fn path(program: &str) -> PathBuf {
    assert!(
        profile() == "dev" || MEASURED.contains(&program),
        "{program} is not among the programs of an optimized build, {MEASURED:?}"
    );
    let directory = BUILT.get_or_init(|| build_programs(&["--quiet"]));
    existing(directory.join(program))
}

/// Returns the path of an example of this workspace, built with the profile of this test and never stale.
///
/// # Panics
///
/// As [`path`].
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let directory = BUILT.get_or_init(|| build(&["--examples", "--quiet"]));
    existing(directory.join("examples").join(name))
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "there is no program {}", path.display());
    path
}

/// Builds the programs now, with cargo's progress on standard error, so that [`path`] needs not: for a program that
/// measures, and must not build while it does.
///
/// # Panics
///
/// As [`path`].
pub fn build_visibly() {
    BUILT.get_or_init(|| build_programs(&[]));
}

/// Returns Cargo's target directory, in which this program was built.
///
/// # Panics
///
/// If it was not built there.
pub fn target_directory() -> PathBuf {
    let profile = profile_directory();
    profile.parent().expect("a profile is in target").to_owned()
}

/// Programs that benchmarks run. Of an optimized build, only these are built here, since each takes minutes to link; cargo links this
/// package's other programs with its benchmarks.
const MEASURED: [&str; 3] = ["leasehold", "leasehold-server", "test-echo"];

/// Directory of the programs, once they are built.
static BUILT: OnceLock<PathBuf> = OnceLock::new();

/// Returns `target/<profile>`: programs are in it, and test programs in `deps` below it.
fn profile_directory() -> PathBuf {
    let program = env::current_exe().expect("the path of the program is known");
    let directory = program.parent().expect("a program is in a directory");
    let profile = match directory.ends_with("deps") {
        true => directory.parent().expect("deps is in a directory"),
        false => directory,
    };
    assert!(
        profile.join("deps").exists(),
        "{} is not in cargo's target directory, where the programs under test are",
        program.display()
    );
    profile.to_owned()
}

/// Returns cargo's name of the profile with which this program was built.
fn profile() -> String {
    let directory = profile_directory();
    match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev".into(),
        Some(name) => name.into(),
        None => panic!("{} has no name", directory.display()),
    }
}

fn build_programs(options: &[&str]) -> PathBuf {
    let programs: Vec<&str> = match &*profile() {
        "dev" => vec!["--bins"],
        _ => MEASURED.iter().flat_map(|name| ["--bin", *name]).collect(),
    };
    build(&[&programs, options].concat())
}

fn build(what: &[&str]) -> PathBuf {
    let directory = profile_directory();
    let target = directory.parent().expect("a profile is in target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["build", "--locked", "--workspace"])
        .args(what)
        .args(["--profile", &*profile()])
        .arg("--target-dir")
        .arg(target);
    if let Some(features) = env::var_os(FEATURES) {
        cargo.arg("--features").arg(features);
    }
    // What cargo sets for the test itself would make build scripts run again, here and at the next build outside.
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        if name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_BIN_")
            || name.starts_with("CARGO_MANIFEST_")
            || [
                "CARGO",
                "CARGO_CRATE_NAME",
                "CARGO_PRIMARY_PACKAGE",
                "OUT_DIR",
            ]
            .contains(&name)
        {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().expect("cargo can be run");
    assert!(
        status.success(),
        "failed to build the programs under test: {status}"
    );
    directory
}
