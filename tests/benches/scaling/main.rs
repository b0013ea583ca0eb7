//! The model of costs: its constants, growth, and checks of what it predicts.
//!
//! A full run writes its tables and its chart into `docs/scaling.md`, between the text that people write. It shares the stage, the
//! driver and the drawings of the benchmark `rivals`.
#![expect(clippy::print_stdout, reason = "the results are the program's output")]

#[path = "../rivals/chart.rs"]
#[expect(dead_code, reason = "rivals draws distributions too")]
mod chart;
mod checks;
mod constants;
#[path = "../rivals/crowd.rs"]
mod crowd;
#[path = "../rivals/cycles.rs"]
#[expect(dead_code, reason = "rivals measures the echo too")]
mod cycles;
mod growth;
#[path = "../rivals/handoff.rs"]
#[expect(dead_code, reason = "rivals tells times and fairness")]
mod handoff;
#[path = "../rivals/machine.rs"]
#[expect(dead_code, reason = "rivals writes it for programs too")]
mod machine;
#[path = "../rivals/marks.rs"]
mod marks;
mod model;
mod options;
mod page;
#[path = "../rivals/parts.rs"]
mod parts;
#[path = "../rivals/stage.rs"]
#[expect(dead_code, reason = "rivals tells operations and commands")]
mod stage;
#[path = "../rivals/stream.rs"]
mod stream;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::{binaries, report};

use crate::{
    model::Constants,
    options::{Options, Sizes},
    page::Measured,
};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
const PAGE: &str = "scaling.md";
/// The drawing, from the directory of the page.
pub(crate) const CHART: &str = "benchmarks/scaling.svg";
/// Longest time of one part.
const LIMIT: Duration = Duration::from_secs(400);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let mut run = Run {
        began: Instant::now(),
        failures: Vec::new(),
        measured: Measured {
            constants: Constants::default(),
            growth: Vec::new(),
            checks: Vec::new(),
            beside: options.beside.clone(),
        },
    };
    run.all(&options.sizes()).await;

    let name = if options.quick {
        "scaling-quick"
    } else {
        "scaling"
    };
    let directory = binaries::target_directory().join("benchmarks").join(name);
    let sections = page::sections(&run.measured);
    save(&directory, &run.measured, &sections)?;
    println!("results: {}", directory.display());
    if !run.failures.is_empty() {
        for failure in run.failures {
            println!("failed: {failure}");
        }
        return Ok(ExitCode::FAILURE);
    }
    let page = fs::read_to_string(Path::new(DOCS).join(PAGE))?;
    let page = sections.iter().try_fold(page, |page, (name, section)| {
        marks::put(&page, &format!("make bench-scaling ({name})"), section)
    })?;
    if !options.quick {
        fs::write(Path::new(DOCS).join(PAGE), page)?;
        let chart = Path::new(DOCS).join(CHART);
        fs::create_dir_all(chart.parent().context("it is in a directory")?)?;
        fs::copy(directory.join(CHART), chart)?;
        println!("published: docs/{PAGE}, docs/{CHART}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes what was measured.
fn save(directory: &Path, measured: &Measured, sections: &[page::Section]) -> anyhow::Result<()> {
    let chart: PathBuf = directory.join(CHART);
    fs::create_dir_all(chart.parent().context("it is in a directory")?)?;
    let panels = measured.growth.iter().map(growth::Growth::panel).collect();
    fs::write(chart, chart::draw(panels)?)?;
    let text: Vec<_> = sections
        .iter()
        .map(|(name, section)| format!("## {name}\n\n{section}\n"))
        .collect();
    let text = text.join("\n");
    println!("{text}");
    fs::write(directory.join(PAGE), text)?;
    let raw = format!("{:#?}\n", measured.constants);
    fs::write(directory.join("constants.txt"), raw)?;
    Ok(())
}

/// A run: what was measured, and the parts that failed.
struct Run {
    began: Instant,
    measured: Measured,
    failures: Vec<String>,
}

impl Run {
    /// Measures everything, a part after the other.
    async fn all(&mut self, sizes: &Sizes) {
        let mut constants = Constants::default();
        /// Measures a part within the limit, and announces it, since it takes a while.
        macro_rules! part {
            ($says:literal, $measured:expr) => {{
                report(format!("{:4} s  {}", self.began.elapsed().as_secs(), $says));
                match parts::guard(LIMIT, Box::pin($measured)).await {
                    Ok(measured) => Some(measured),
                    Err(error) => {
                        report(format!("        failed: {error:#}"));
                        self.failures.push(format!("{}: {error:#}", $says));
                        None
                    }
                }
            }};
        }
        part!(
            "constants: cycles",
            constants::cycles(sizes, &mut constants)
        );
        part!(
            "constants: hand-offs",
            constants::hand_offs(sizes, &mut constants)
        );
        part!(
            "constants: sessions",
            constants::resting(sizes, &mut constants)
        );
        part!(
            "constants: held locks",
            constants::held(sizes, &mut constants)
        );
        part!(
            "constants: records",
            constants::records(sizes, &mut constants)
        );
        part!(
            "constants: traffic",
            constants::traffic(sizes, &mut constants)
        );
        let growth = [
            part!(
                "growth: waiters",
                growth::Of::Waiters.measure(sizes.waiters, sizes)
            ),
            part!(
                "growth: held locks",
                growth::Of::Locks.measure(sizes.locks, sizes)
            ),
            part!(
                "growth: sessions",
                growth::Of::Sessions.measure(sizes.sessions, sizes)
            ),
        ];
        let checks = [
            part!("check: held locks", checks::held(sizes, &constants)),
            part!("check: sessions", checks::resting(sizes, &constants)),
            part!("check: cluster", checks::cluster(sizes, &constants)),
        ];
        self.measured.growth = growth.into_iter().flatten().collect();
        self.measured.checks = checks.into_iter().flatten().collect();
        self.measured.constants = constants;
        report(format!("{:4} s  measured", self.began.elapsed().as_secs()));
    }
}
