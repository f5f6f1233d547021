//! How the work on one cell is divided: each member has its own sequences, or all members share each step.

use super::tune;
use crate::matmul::share;
use crate::schedule::Schedule;
use layernorm::parts::{Barrier, team};
use std::ops::Range;

/// How the steps are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitBy {
    /// Each member runs its sequences through all steps, without barriers.
    Sequences,
    /// The members share the columns of each product, with barriers at every step.
    Columns,
}

/// Number of threads that work on a cell, and how they divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TeamPlan {
    pub(crate) members: usize,
    pub(crate) split: SplitBy,
}

impl TeamPlan {
    /// Chooses the plan for a cell with weights U `[width, output]`. The choice does not affect the results.
    pub(crate) fn new(threads: usize, schedule: &Schedule, input: usize, output: usize, width: usize) -> TeamPlan {
        let products = schedule.rows().saturating_mul(width).saturating_mul(input + output);
        let heavy = output.saturating_mul(width) >= tune::WEIGHTS_BEYOND_A_CORE;
        let few = schedule.batch < threads * tune::SEQUENCES_FOR_A_MEMBER;
        let (split, worth) = if heavy && few {
            (SplitBy::Columns, tune::PRODUCTS_FOR_SHARED_STEPS)
        } else {
            (SplitBy::Sequences, tune::PRODUCTS_FOR_A_TEAM)
        };
        let members = if products < worth { 1 } else { threads };
        TeamPlan { members, split: if members > 1 { split } else { SplitBy::Sequences } }
    }

    /// Calls `work` on every member, or on a single one if the threads are busy.
    pub(crate) fn run(self, schedule: &Schedule, work: &(dyn Fn(&Member<'_>) + Sync)) {
        let called = self.members > 1
            && team(self.members, &|index, barrier| work(&self.member(schedule, index, self.members, Some(barrier))));
        if !called {
            work(&self.member(schedule, 0, 1, None));
        }
    }

    fn member<'a>(self, schedule: &Schedule, index: usize, members: usize, barrier: Option<&'a Barrier>) -> Member<'a> {
        let own = match self.split {
            SplitBy::Sequences => schedule.share(index, members),
            SplitBy::Columns => share(schedule.batch, index, members),
        };
        Member { index, members, split: self.split, own, barrier }
    }
}

/// One of the threads that work on a cell, and its share of the work.
pub(crate) struct Member<'a> {
    pub(crate) index: usize,
    pub(crate) members: usize,
    split: SplitBy,
    /// Sequences that this member computes.
    own: Range<usize>,
    barrier: Option<&'a Barrier>,
}

impl Member<'_> {
    /// Waits for all members.
    pub(crate) fn wait(&self) {
        if let Some(barrier) = self.barrier {
            barrier.wait();
        }
    }

    /// Waits for all members if they share a step.
    pub(crate) fn wait_in_step(&self) {
        if self.split == SplitBy::Columns {
            self.wait();
        }
    }

    /// Returns those of the running sequences that this member computes.
    pub(crate) fn own(&self, running: usize) -> Range<usize> {
        self.own.start.min(running)..self.own.end.min(running)
    }

    /// Returns those of the running sequences for which this member computes products.
    pub(crate) fn product_rows(&self, running: usize) -> Range<usize> {
        if self.split == SplitBy::Columns { 0..running } else { self.own(running) }
    }

    /// Returns those panels of a step's product that this member computes.
    pub(crate) fn panels(&self, all: usize) -> (usize, usize) {
        if self.split == SplitBy::Columns {
            let part = share(all, self.index, self.members);
            (part.start, part.end)
        } else {
            (0, all)
        }
    }

    /// Returns this member's part of `all` items.
    pub(crate) fn part(&self, all: usize) -> Range<usize> {
        share(all, self.index, self.members)
    }
}
