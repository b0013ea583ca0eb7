//! Parser of a line of `CLUSTER NODES`.

/// A line of `CLUSTER NODES`.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) flags: Vec<String>,
    pub(super) master: String,
    pub(super) epoch: u64,
    pub(super) slots: Vec<(u16, u16)>,
}

impl Line {
    pub(super) fn read(line: &str) -> Self {
        let words: Vec<_> = line.split_whitespace().collect();
        let slots = words[8..].iter().filter(|range| !range.starts_with('['));
        let slots = slots.map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let read = |slot: &str| slot.parse().expect("a slot is a number");
            (read(first), read(last))
        });
        Self {
            id: words[0].to_owned(),
            flags: words[2].split(',').map(ToOwned::to_owned).collect(),
            master: words[3].to_owned(),
            epoch: words[6].parse().expect("an epoch is a number"),
            slots: slots.collect(),
        }
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|has| has == flag)
    }

    pub(super) fn is_myself(&self) -> bool {
        self.has("myself")
    }

    pub(super) fn is_master(&self) -> bool {
        self.has("master")
    }

    pub(super) fn served(&self) -> u32 {
        self.slots
            .iter()
            .map(|&(first, last)| u32::from(last - first) + 1)
            .sum()
    }

    pub(super) fn serves(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|&(first, last)| (first..=last).contains(&slot))
    }
}
