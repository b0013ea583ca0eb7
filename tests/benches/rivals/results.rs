//! Results of a run: written after every part, so that a run that ends early leaves its parts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::json;

use crate::{
    figures::Row,
    page,
    rows::Bench,
    shared::{chart, machine, marks, parts::Failure},
    targets,
};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
/// The drawing, from the directory of the page.
pub(crate) const LATENCY: &str = "benchmarks/latency.svg";
const PAGE: &str = "benchmarks.md";
const TARGETS: &str = "targets.md";

/// Everything that was measured so far.
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) quick: bool,
    directory: PathBuf,
}

impl Results {
    /// Begins without any, which are written to `directory`. Removes what an earlier run left there.
    ///
    /// # Errors
    ///
    /// If the directory cannot be made empty.
    pub(crate) fn begin(directory: PathBuf, quick: bool) -> anyhow::Result<Self> {
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("failed to empty {}", directory.display()));
            }
            _ => {}
        }
        fs::create_dir_all(&directory)?;
        Ok(Self {
            rows: Vec::new(),
            quick,
            directory,
        })
    }

    /// Returns where everything is written.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes all results so far: for programs, and as the pages that a full run publishes.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(crate) fn save(&self, bench: &Bench, failures: &[Failure]) -> anyhow::Result<()> {
        let rows: Vec<_> = self.rows.iter().map(Row::json).collect();
        let failed = failures
            .iter()
            .map(|failure| json!({"part": failure.part, "reason": failure.reason}));
        let all = json!({
            "quick": self.quick,
            "machine": machine::look(&bench.peers.versions),
            "rows": rows,
            "failures": failed.collect::<Vec<_>>(),
        });
        self.write("results.json", &serde_json::to_string_pretty(&all)?)?;
        if !bench.distributions.is_empty() {
            self.write(LATENCY, &chart::draw(&bench.distributions)?)?;
        }
        self.write(PAGE, &page::text(self, bench, failures))?;
        self.write(TARGETS, &targets::text(self))
    }

    /// Copies the page and its drawing to `docs/`, and puts the targets into `docs/performance.md`.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or `docs/performance.md` has no place for the targets.
    pub(crate) fn publish(&self) -> anyhow::Result<()> {
        let docs = Path::new(DOCS);
        for file in [PAGE, LATENCY] {
            let from = self.directory.join(file);
            // There is no drawing of parts that failed.
            if from.exists() {
                fs::copy(&from, docs.join(file))
                    .with_context(|| format!("failed to write docs/{file}"))?;
            }
        }
        let performance = docs.join("performance.md");
        let page = fs::read_to_string(&performance)?;
        let page = marks::put(&page, "make bench", &targets::text(self))?;
        fs::write(performance, page).context("failed to write docs/performance.md")
    }

    /// Replaces a file as a whole, so that an interruption leaves the one before.
    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let to = self.directory.join(file);
        let failed = || format!("failed to write {}", to.display());
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let next = to.with_extension("next");
        fs::write(&next, text).with_context(failed)?;
        fs::rename(&next, &to).with_context(failed)
    }
}
