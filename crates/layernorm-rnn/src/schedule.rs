//! Which sequences are running at which step, and where their rows are.
//!
//! Sequences are sorted by descending length, so that those still running at step s are the first `active[s]`. The
//! rows of all valid steps are consecutive: row(s, j) = base[s] + j for step s of the j-th sequence in that order. A
//! cell that runs backward in time sees time t of a sequence of length L as its step s = L − 1 − t.
//!
//! Steps are divided into segments of at least a few hundred rows, over which one product runs. Sums over time (the
//! gradients of parameters) are computed segment by segment.

use crate::error::Error;
use crate::network::Sequences;
use layernorm::parts::memory;
use std::ops::Range;

/// Minimum number of rows per segment.
const SEGMENT_ROWS: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// Number of sequences.
    pub(crate) batch: usize,
    /// Index in the batch of the j-th sequence by descending length.
    pub(crate) order: Vec<usize>,
    /// Length of the j-th sequence.
    pub(crate) lengths: Vec<usize>,
    /// Number of running sequences per step. There are as many steps as the longest sequence has.
    pub(crate) active: Vec<usize>,
    /// First row of each step, then the total number of rows.
    pub(crate) base: Vec<usize>,
    pub(crate) segments: Vec<Range<usize>>,
}

impl Schedule {
    /// Sets the schedule for these sequences. Allocates only to grow.
    pub(crate) fn set<T>(&mut self, sequences: &Sequences<'_, T>) -> Result<(), Error> {
        let Sequences { steps, batch, lengths, .. } = *sequences;
        if let Some(lengths) = lengths {
            if lengths.len() != batch {
                return Err(Error::Length {
                    what: "lengths",
                    shape: format!("[B] = [{batch}]"),
                    expected: batch,
                    found: lengths.len(),
                });
            }
            if let Some(sequence) = lengths.iter().position(|&n| n == 0 || n > steps) {
                return Err(Error::SequenceLength { sequence, steps, found: lengths[sequence] });
            }
        }
        let longest = if batch == 0 { 0 } else { lengths.map_or(steps, |l| l.iter().copied().max().unwrap_or(0)) };
        self.reserve(batch, longest)?;
        self.batch = batch;
        self.order.extend(0..batch);
        if let Some(lengths) = lengths {
            self.order.sort_by_key(|&b| (std::cmp::Reverse(lengths[b]), b));
        }
        self.lengths.extend(self.order.iter().map(|&b| lengths.map_or(steps, |lengths| lengths[b])));
        let (mut running, mut rows, mut first) = (batch, 0, 0);
        for step in 0..longest {
            while self.lengths[running - 1] <= step {
                running -= 1;
            }
            self.active.push(running);
            self.base.push(rows);
            rows += running;
            if rows - self.base[first] >= SEGMENT_ROWS || step + 1 == longest {
                self.segments.push(first..step + 1);
                first = step + 1;
            }
        }
        self.base.push(rows);
        Ok(())
    }

    /// Clears the schedule and reserves memory for this many sequences and steps.
    fn reserve(&mut self, batch: usize, steps: usize) -> Result<(), Error> {
        self.batch = 0;
        for (list, count) in [
            (&mut self.order, batch),
            (&mut self.lengths, batch),
            (&mut self.active, steps),
            (&mut self.base, steps.saturating_add(1)),
        ] {
            list.clear();
            list.try_reserve(count).map_err(|_| memory::out_of_memory::<usize>(count))?;
        }
        // A segment has at least one step, and all but the last have many rows.
        let segments = steps.min(batch.saturating_mul(steps) / SEGMENT_ROWS + 1);
        self.segments.clear();
        self.segments.try_reserve(segments).map_err(|_| memory::out_of_memory::<Range<usize>>(segments))?;
        Ok(())
    }

    /// Returns the number of steps of the longest sequence.
    pub(crate) fn steps(&self) -> usize {
        self.active.len()
    }

    /// Returns the number of rows of all steps.
    pub(crate) fn rows(&self) -> usize {
        self.base[self.steps()]
    }

    /// Returns the largest number of rows of a segment.
    pub(crate) fn segment_rows(&self) -> usize {
        self.segments.iter().map(|steps| self.base[steps.end] - self.base[steps.start]).max().unwrap_or(0)
    }

    /// Returns the time at which the j-th sequence is at step s.
    pub(crate) fn time(&self, reverse: bool, s: usize, j: usize) -> usize {
        if reverse { self.lengths[j] - 1 - s } else { s }
    }

    /// Returns the step and the sequence of a row.
    pub(crate) fn place(&self, row: usize) -> (usize, usize) {
        let step = self.base.partition_point(|&base| base <= row) - 1;
        (step, row - self.base[step])
    }

    /// Returns the sequences of a member: about the same number of rows for each.
    pub(crate) fn share(&self, member: usize, members: usize) -> Range<usize> {
        let total: usize = self.rows();
        let cut = |part: usize| {
            let (wanted, mut sum) = (total * part / members, 0);
            self.lengths
                .iter()
                .position(|&length| {
                    let before = sum;
                    sum += length;
                    before + length / 2 >= wanted
                })
                .unwrap_or(self.batch)
        };
        let start = if member == 0 { 0 } else { cut(member) };
        start..if member + 1 == members { self.batch } else { cut(member + 1) }
    }
}
