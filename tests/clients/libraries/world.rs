//! Surroundings of one run of a scenario: the library, and the mutant if there is one.

use std::{cell::RefCell, path::PathBuf, rc::Rc};

use crate::{
    driver::Driver,
    library,
    mutant::{Means, Mutant},
    scripted::Scripted,
};

/// One run of a scenario.
#[derive(Clone)]
pub(crate) struct World {
    words: Rc<[PathBuf]>,
    mutant: Option<&'static Mutant>,
    /// All drivers that the scenario started, for what they logged.
    drivers: Rc<RefCell<Vec<Rc<Driver>>>>,
}

impl World {
    pub(crate) fn new(words: &[PathBuf], mutant: Option<&'static Mutant>) -> Self {
        Self {
            words: words.into(),
            mutant,
            drivers: Rc::default(),
        }
    }

    /// Starts a driver of the library.
    pub(crate) async fn driver(&self) -> anyhow::Result<Rc<Driver>> {
        self.driver_by(&[]).await
    }

    /// Starts a driver of the library by way of another program.
    pub(crate) async fn driver_by(&self, before: &[&str]) -> anyhow::Result<Rc<Driver>> {
        let lines = match self.mutant.map(|mutant| &mutant.means) {
            Some(Means::Lines(make)) => Some(make()),
            _ => None,
        };
        let mut words: Vec<PathBuf> = before.iter().map(PathBuf::from).collect();
        words.extend_from_slice(&self.words);
        let driver = Rc::new(Driver::start(library::command(&words), lines)?);
        self.drivers.borrow_mut().push(Rc::clone(&driver));
        driver
            .run("hello", serde_json::json!({ "protocol": 1 }))
            .await?;
        Ok(driver)
    }

    /// Starts a scripted coordinator.
    pub(crate) async fn scripted(&self) -> Scripted {
        let wire = match self.mutant.map(|mutant| &mutant.means) {
            Some(Means::Wire(make)) => Some(make()),
            _ => None,
        };
        Scripted::start(wire).await
    }

    /// Returns what the drivers logged.
    pub(crate) fn logs(&self) -> String {
        let drivers = self.drivers.borrow();
        let logs = drivers.iter().map(|driver| driver.log());
        logs.filter(|log| !log.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}
