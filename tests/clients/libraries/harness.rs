//! Harness: which tests to run, several at a time, and what came of them.
//!
//! A test is a scenario with a library, or one with its mutant, which must fail. The arguments are those of cargo's own harness as far as
//! they make sense: names to run, `--skip NAME`, `--test-threads N`, `--list`. The name of a library runs its tests alone, and
//! `--repeat N` runs each test N times. Mutants show that the harness finds what is wrong: `--mutants`, or the variable `MUTANTS=1`,
//! runs them instead, each with the first library that can carry out its scenario.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Parser, builder::FalseyValueParser};

use crate::{
    library::LIBRARIES,
    scenarios::{SCENARIOS, Scenario, TIME_NAMESPACE, can_make_namespace},
    table::{self, Cell},
    world::World,
};

/// Longest time of one test.
const LIMIT: Duration = Duration::from_secs(150);
/// Tests that run at a time. They wait most of their time.
const THREADS: usize = 8;

/// Arguments of the command line.
#[derive(Parser)]
struct Arguments {
    names: Vec<String>,
    #[arg(long)]
    skip: Vec<String>,
    #[arg(long, env = "RUST_TEST_THREADS", default_value_t = THREADS)]
    test_threads: usize,
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    #[arg(long, env = "MUTANTS", value_parser = FalseyValueParser::new())]
    mutants: bool,
    #[arg(long)]
    list: bool,
    /// What cargo's harness has and this one does not need.
    #[arg(long, aliases = ["quiet", "exact", "include-ignored", "show-output"], hide = true)]
    nocapture: bool,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        let is_in = |part: &String| match LIBRARIES.iter().any(|library| library.name == part) {
            true => name.split("::").next() == Some(part),
            false => name.contains(part.as_str()),
        };
        (self.names.is_empty() || self.names.iter().any(is_in)) && !self.skip.iter().any(is_in)
    }
}

/// One test.
struct Test {
    name: String,
    library: usize,
    scenario: &'static Scenario,
    is_mutant: bool,
}

/// What came of a test.
enum Outcome {
    Passed,
    /// The library does not offer what the scenario needs.
    Skipped(String),
    /// This machine does not.
    NotHere(String),
    Failed(String),
}

/// Runs what the arguments ask for.
pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut tests: Vec<Test> = all()
        .into_iter()
        .filter(|test| test.is_mutant == arguments.mutants && arguments.wants(&test.name))
        .collect();
    if arguments.list {
        for test in &tests {
            println!("{}: test", test.name);
        }
        return ExitCode::SUCCESS;
    }
    std::panic::set_hook(Box::new(|panic| {
        LAST_PANIC.with_borrow_mut(|last| *last = panic.to_string());
    }));
    let drivers = drivers(&tests);
    keep_first_mutants(&mut tests, &drivers);
    let mut queue: Vec<&Test> = Vec::new();
    for _ in 0..arguments.repeat {
        queue.extend(&tests);
    }
    let results = all_of(&queue, &drivers, arguments.test_threads);
    match report(&tests, &results, &drivers) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Returns every test.
fn all() -> Vec<Test> {
    let mut tests = Vec::new();
    for (library, shown) in LIBRARIES.iter().enumerate() {
        for scenario in SCENARIOS {
            let name = format!("{}::{}", shown.name, scenario.name());
            let test = |name, is_mutant| Test {
                name,
                library,
                scenario,
                is_mutant,
            };
            tests.push(test(format!("{name}::mutant"), true));
            tests.push(test(name, false));
        }
    }
    tests
}

/// Leaves out mutants whose scenario an earlier library can carry out, and those that their library can't.
fn keep_first_mutants(tests: &mut Vec<Test>, drivers: &HashMap<usize, Result<Ready, String>>) {
    let mut kept = HashSet::new();
    tests.retain(|test| {
        let can = |ready: &Ready| ready.lacks(test.scenario).is_none();
        let can = drivers[&test.library].as_ref().is_ok_and(can);
        !test.is_mutant || (can && kept.insert(test.scenario.number))
    });
}

/// A library's driver: how to start it, and what it can do.
struct Ready {
    words: Vec<PathBuf>,
    capabilities: Vec<String>,
}

impl Ready {
    /// Returns a capability that a scenario needs and the driver does not have.
    fn lacks(&self, scenario: &Scenario) -> Option<&'static str> {
        let has = |need: &str| self.capabilities.iter().any(|known| known == need);
        let mut needs = scenario.needs.iter().copied();
        needs.find(|need| *need != TIME_NAMESPACE && !has(need))
    }
}

/// Builds and asks the driver of each library that has a test; says why another one can't be started here.
fn drivers(tests: &[Test]) -> HashMap<usize, Result<Ready, String>> {
    let mut drivers = HashMap::new();
    for test in tests {
        drivers.entry(test.library).or_insert_with(|| {
            let words = (LIBRARIES[test.library].driver)()?;
            let hello = async {
                let driver = World::new(&words, None).driver().await?;
                let hello = driver.line(|line| line.get("ok").is_some());
                hello.context("there is no hello")
            };
            let hello = runtime()
                .block_on(hello)
                .map_err(|error| format!("{error:#}"));
            let hello = hello.unwrap_or_else(|error| panic!("the driver does not start: {error}"));
            let listed = hello["ok"]["capabilities"].as_array();
            let capabilities = listed.into_iter().flatten();
            let capabilities = capabilities.filter_map(|name| Some(name.as_str()?.to_owned()));
            Ok(Ready {
                capabilities: capabilities.collect(),
                words,
            })
        });
    }
    drivers
}

/// Runs the tests, so many at a time, in their order.
fn all_of(
    queue: &[&Test],
    drivers: &HashMap<usize, Result<Ready, String>>,
    threads: usize,
) -> Vec<(Outcome, Duration)> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<(Outcome, Duration)>>> =
        Mutex::new(queue.iter().map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..threads.min(queue.len()) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(test) = queue.get(place) else { return };
                    let begun = Instant::now();
                    let outcome = one(test, &drivers[&test.library]);
                    let took = begun.elapsed();
                    let said = match &outcome {
                        Outcome::Passed => "ok".to_owned(),
                        Outcome::Skipped(why) | Outcome::NotHere(why) => format!("skipped: {why}"),
                        Outcome::Failed(verdict) => format!("FAILED\n{verdict}\n"),
                    };
                    println!(
                        "test {} ... {said} ({:.1} s)",
                        test.name,
                        took.as_secs_f64()
                    );
                    results.lock().unwrap()[place] = Some((outcome, took));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let results = results.into_iter();
    results
        .map(|result| result.expect("every test has run"))
        .collect()
}

thread_local! {
    static LAST_PANIC: RefCell<String> = RefCell::default();
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime can be made")
}

fn one(test: &Test, driver: &Result<Ready, String>) -> Outcome {
    let ready = match driver {
        Ok(ready) => ready,
        Err(why) => return Outcome::NotHere(why.clone()),
    };
    let scenario = test.scenario;
    if scenario.needs.contains(&TIME_NAMESPACE) && !can_make_namespace() {
        return Outcome::NotHere("unshare can't make a time namespace here".to_owned());
    }
    if let Some(lacking) = ready.lacks(scenario) {
        return Outcome::Skipped(format!("the driver has no `{lacking}`"));
    }
    let mutant = test.is_mutant.then_some(&scenario.mutant);
    let world = World::new(&ready.words, mutant);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let run = (scenario.run)(world.clone());
        runtime().block_on(async {
            let done = tokio::time::timeout(LIMIT, run).await;
            done.unwrap_or_else(|_| anyhow::bail!("it was not done within {LIMIT:?}"))
        })
    }));
    let verdict = match ran {
        Err(_) => return Outcome::Failed(LAST_PANIC.with_borrow(Clone::clone)),
        Ok(verdict) => verdict,
    };
    match (verdict, mutant) {
        (Ok(()), None) => Outcome::Passed,
        (Err(error), None) => Outcome::Failed(format!("{error:#}\n{}", world.logs())),
        (Ok(()), Some(mutant)) => Outcome::Failed(format!(
            "it passes a driver with this wrong: {}",
            mutant.wrong
        )),
        (Err(error), Some(mutant)) => {
            let verdict = format!("{error:#}");
            if verdict.contains(mutant.verdict) {
                return Outcome::Passed;
            }
            Outcome::Failed(format!(
                "a driver with this wrong: {}\nfails otherwise than with {:?}: {verdict}",
                mutant.wrong, mutant.verdict
            ))
        }
    }
}

/// Says what came of all, and whether all is well.
fn report(
    tests: &[Test],
    results: &[(Outcome, Duration)],
    drivers: &HashMap<usize, Result<Ready, String>>,
) -> bool {
    let count = |wanted: fn(&Outcome) -> bool| results.iter().filter(|(is, _)| wanted(is)).count();
    let failed = count(|is| matches!(is, Outcome::Failed(_)));
    let skipped = count(|is| matches!(is, Outcome::Skipped(_) | Outcome::NotHere(_)));
    let passed = results.len() - failed - skipped;
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    for (place, driver) in drivers {
        if let Err(why) = driver {
            println!("skipped all of {}: {why}", LIBRARIES[*place].title);
        }
    }
    let mut cells = HashMap::new();
    for (test, (outcome, _)) in tests.iter().cycle().zip(results) {
        if test.is_mutant {
            continue;
        }
        let cell = match outcome {
            Outcome::Passed => Cell::Passes,
            Outcome::Skipped(_) => Cell::NotOffered,
            Outcome::Failed(_) | Outcome::NotHere(_) => continue,
        };
        cells.insert((test.library, test.scenario.number), cell);
    }
    let is_current = table::check(&cells);
    failed == 0 && is_current
}
