//! The model of costs: its constants, growth, and checks of what it predicts.
//!
//! A full run writes its tables and its chart into `docs/scaling.md`, between the text that people write. It shares the stage, the
//! driver and the drawings with the benchmark `rivals`.
#![expect(clippy::print_stdout, reason = "the results are the program's output")]

mod checks;
mod constants;
mod growth;
mod model;
mod options;
mod page;
#[path = "../shared/mod.rs"]
#[expect(dead_code, reason = "rivals uses the rest")]
mod shared;

use std::{fs, path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::binaries;

use crate::{
    growth::{Growth, Of},
    model::Constants,
    options::{Options, Sizes},
    page::Measured,
    shared::{
        chart, marks,
        parts::{Failure, Parts},
    },
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
    let mut parts = Parts::new(LIMIT);
    let measured = measure(&options.sizes(), &mut parts, options.beside.clone()).await;

    let name = if options.quick {
        "scaling-quick"
    } else {
        "scaling"
    };
    let directory = binaries::target_directory().join("benchmarks").join(name);
    let sections = page::sections(&measured);
    save(&directory, &measured, &sections)?;
    println!("results: {}", directory.display());
    if !parts.failures.is_empty() {
        for Failure { part, reason } in parts.failures {
            println!("failed: {part}: {reason}");
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
    let chart = directory.join(CHART);
    fs::create_dir_all(chart.parent().context("it is in a directory")?)?;
    let panels: Vec<_> = measured.growth.iter().map(Growth::panel).collect();
    fs::write(chart, chart::draw(&panels)?)?;
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

/// Measures everything, a part after the other. The checks compare with what has been measured by then.
async fn measure(sizes: &Sizes, parts: &mut Parts, beside: Option<String>) -> Measured {
    let mut constants = Constants::default();
    let into = &mut constants;
    parts
        .run("constants: cycles", constants::cycles(sizes, into))
        .await;
    parts
        .run("constants: hand-offs", constants::hand_offs(sizes, into))
        .await;
    parts
        .run("constants: sessions", constants::resting(sizes, into))
        .await;
    parts
        .run("constants: held locks", constants::held(sizes, into))
        .await;
    parts
        .run("constants: records", constants::records(sizes, into))
        .await;
    parts
        .run("constants: traffic", constants::traffic(sizes, into))
        .await;
    let mut growth = Vec::new();
    for (part, of, counts) in [
        ("growth: waiters", Of::Waiters, sizes.waiters),
        ("growth: held locks", Of::Locks, sizes.locks),
        ("growth: sessions", Of::Sessions, sizes.sessions),
    ] {
        growth.extend(parts.run(part, of.measure(counts, sizes)).await);
    }
    let checks = [
        parts
            .run("check: held locks", checks::held(sizes, &constants))
            .await,
        parts
            .run("check: sessions", checks::resting(sizes, &constants))
            .await,
        parts
            .run("check: cluster", checks::cluster(sizes, &constants))
            .await,
    ];
    parts.say("measured");
    Measured {
        constants,
        growth,
        checks: checks.into_iter().flatten().collect(),
        beside,
    }
}
