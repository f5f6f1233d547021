//! The runs that a folder should hold, planned once, so that its progress can be looked at again and again.

use super::{Error, Options, folder, shard};
use crate::data::Dataset;
use crate::records::Header;
use crate::studies::RunPlan;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;

/// Runs that a folder should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    headers: Vec<Header>,
}

impl Wanted {
    /// All runs of a session, without regard to its shard.
    pub fn all(options: &Options, data: &Dataset) -> Wanted {
        let headers = options.plans(data).iter().map(|plan| plan.header().clone()).collect();
        Wanted { headers }
    }

    /// The runs of each of `count` shards, in order.
    pub fn of_shards(options: &Options, data: &Dataset, count: NonZeroUsize) -> Vec<Wanted> {
        let plans = options.plans(data);
        let efforts: Vec<f64> = plans.iter().map(RunPlan::effort).collect();
        let mut shards = vec![Wanted::default(); count.get()];
        for (plan, part) in plans.iter().zip(shard::parts(&efforts, count)) {
            shards[part].headers.push(plan.header().clone());
        }
        shards
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// How many of the runs are finished in a folder. Does not lock it, so another process may be at work there.
    ///
    /// # Errors
    /// [`Error::Records`] if a record cannot be read.
    pub fn finished(&self, folder: &Path) -> Result<usize, Error> {
        let existing = folder::runs(folder)?;
        let finished: HashMap<&str, &Header> =
            existing.iter().filter(|run| run.finished).map(|run| (&*run.header.run, &run.header)).collect();
        Ok(self.headers.iter().filter(|header| finished.get(&*header.run) == Some(header)).count())
    }
}
