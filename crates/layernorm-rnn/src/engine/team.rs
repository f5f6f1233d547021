//! How the work on one cell is divided: each member has its own sequences, or all members share each step.

use super::tune;
use crate::matmul::share;
use crate::schedule::Schedule;
use layernorm::parts::{Meeting, team};
use std::ops::Range;

/// How the steps are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Each member runs its sequences through all steps, without barriers.
    Sequences,
    /// The members share the columns of each product, with barriers at every step.
    Columns,
}

/// Number of members that work on a cell, and how they divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) members: usize,
    pub(crate) split: Split,
}

impl Plan {
    /// Chooses the plan for a cell with weights U `[width, output]`. The choice changes no bit.
    pub(crate) fn new(threads: usize, schedule: &Schedule, input: usize, output: usize, width: usize) -> Plan {
        let products = schedule.rows().saturating_mul(width).saturating_mul(input + output);
        let heavy = output.saturating_mul(width) >= tune::WEIGHTS_BEYOND_A_CORE;
        let few = schedule.batch < threads * tune::SEQUENCES_FOR_A_MEMBER;
        let (split, worth) = if heavy && few {
            (Split::Columns, tune::PRODUCTS_FOR_SHARED_STEPS)
        } else {
            (Split::Sequences, tune::PRODUCTS_FOR_A_TEAM)
        };
        let members = if products < worth { 1 } else { threads };
        Plan { members, split: if members > 1 { split } else { Split::Sequences } }
    }

    /// Calls `work` on every member, or on a single one if the threads are busy.
    pub(crate) fn run(self, schedule: &Schedule, work: &(dyn Fn(&Lane<'_>) + Sync)) {
        let called = self.members > 1
            && team(self.members, &|member, meeting| work(&self.lane(schedule, member, self.members, Some(meeting))));
        if !called {
            work(&self.lane(schedule, 0, 1, None));
        }
    }

    fn lane<'a>(self, schedule: &Schedule, member: usize, members: usize, meeting: Option<&'a Meeting>) -> Lane<'a> {
        let own = match self.split {
            Split::Sequences => schedule.share(member, members),
            Split::Columns => share(schedule.batch, member, members),
        };
        Lane { member, members, split: self.split, own, meeting }
    }
}

/// One member's share of the work on a cell.
pub(crate) struct Lane<'a> {
    pub(crate) member: usize,
    pub(crate) members: usize,
    split: Split,
    /// Sequences that this member computes.
    own: Range<usize>,
    meeting: Option<&'a Meeting>,
}

impl Lane<'_> {
    /// Waits for all members.
    pub(crate) fn meet(&self) {
        if let Some(meeting) = self.meeting {
            meeting.wait();
        }
    }

    /// Waits for all members if they share a step.
    pub(crate) fn meet_in_step(&self) {
        if self.split == Split::Columns {
            self.meet();
        }
    }

    /// Returns those of the running sequences that this member computes.
    pub(crate) fn own(&self, running: usize) -> Range<usize> {
        self.own.start.min(running)..self.own.end.min(running)
    }

    /// Returns those of the running sequences for which this member computes products.
    pub(crate) fn product_rows(&self, running: usize) -> Range<usize> {
        if self.split == Split::Columns { 0..running } else { self.own(running) }
    }

    /// Returns those panels of a step's product that this member computes.
    pub(crate) fn panels(&self, all: usize) -> (usize, usize) {
        if self.split == Split::Columns {
            let part = share(all, self.member, self.members);
            (part.start, part.end)
        } else {
            (0, all)
        }
    }

    /// Returns this member's part of `all` items.
    pub(crate) fn part(&self, all: usize) -> Range<usize> {
        share(all, self.member, self.members)
    }
}
