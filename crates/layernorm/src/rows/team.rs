//! Backward for few, long rows: the threads share each row. A member has the same columns in every row, in parts of a
//! power of two of blocks. So the sums along a row are subtrees of its tree, and the sums down the rows are local to
//! a member. The members meet once per row, when the sums along it are complete.

use super::chunk_tree::ChunkTree;
use super::{BackwardJob, Shared};
use crate::arch::MachineIsa;
use crate::context::{Need, Scratch};
use crate::element::{Element, Float};
use crate::kernels::Rows;
use crate::kernels::backward::{Backward, ParameterSums, PartDots, PartGradient, WholeRow};
use crate::kernels::extreme;
use crate::sum::{BLOCK, CHUNK, PairTree};
use crate::threads::{self, Meeting};

/// Parts of a row per member: enough for nearly equal shares.
const PARTS_PER_MEMBER: usize = 4;

/// How rows are shared.
pub(super) struct Team {
    rows: usize,
    n: usize,
    members: usize,
    /// Elements per part: a power of two of blocks.
    part: usize,
    /// Parts per row.
    parts: usize,
    /// Arrays of sums that a member may hold at once.
    slots: usize,
}

impl Team {
    pub(super) fn new(rows: usize, n: usize, members: usize) -> Team {
        let blocks = n.div_ceil(BLOCK);
        let blocks_per_part = (blocks / (members * PARTS_PER_MEMBER)).max(1);
        let part = (1 << blocks_per_part.ilog2()) * BLOCK;
        let slots = rows.div_ceil(CHUNK).max(1).next_power_of_two().ilog2() as usize + 2;
        Team { rows, n, members, part, parts: n.div_ceil(part), slots }
    }

    /// Returns the columns of a member.
    fn columns(&self, member: usize) -> (usize, usize) {
        let edge = |member: usize| (self.parts * member / self.members * self.part).min(self.n);
        (edge(member), edge(member + 1))
    }

    /// Returns the number of part sums, for two rows: a fast member may be a row ahead.
    fn part_sums(&self) -> usize {
        2 * 2 * self.parts
    }

    pub(super) fn need<T: Element>(&self) -> Need {
        let widest = (self.parts.div_ceil(self.members) * self.part).min(self.n);
        let slots = Need::default().plus::<T::Acc>(2 * widest * self.slots).times(self.members);
        Need::default().plus::<T::Acc>(2 * self.n).plus::<T::Acc>(self.part_sums()).and(slots)
    }

    /// Returns the sums for γ, then for β, or `None` if the threads are not available now (then nothing was done).
    ///
    /// # Safety
    /// All operands of the job have contiguous rows.
    pub(super) unsafe fn run<T: Element>(
        &self,
        job: &BackwardJob<T>,
        isa: MachineIsa,
        scratch: &mut Scratch,
    ) -> Option<*mut T::Acc> {
        let mut scratch = scratch.part(self.need::<T>());
        let result = scratch.take::<T::Acc>(2 * self.n);
        let part_sums = scratch.take::<T::Acc>(self.part_sums());
        let widest = (self.parts.div_ceil(self.members) * self.part).min(self.n);
        let each = Need::default().plus::<T::Acc>(2 * widest * self.slots);
        let shared = Shared((&raw const *job, result, part_sums, scratch));
        let called = threads::team(self.members, &|member, meeting| {
            let (job, result, part_sums, scratch) = shared.get();
            let slots = scratch.nth(each, member).take::<T::Acc>(2 * widest * self.slots);
            // SAFETY: the job outlives the call; members write to separate columns, parts and slots.
            unsafe { Member { team: self, job: &*job, isa, part_sums, meeting }.work(member, slots, result) };
        });
        called.then_some(result)
    }
}

struct Member<'a, T: Element> {
    team: &'a Team,
    job: &'a BackwardJob<T>,
    isa: MachineIsa,
    part_sums: *mut T::Acc,
    meeting: &'a Meeting,
}

impl<T: Element> Member<'_, T> {
    unsafe fn work(&self, member: usize, slots: *mut T::Acc, result: *mut T::Acc) {
        let (start, end) = self.team.columns(member);
        let len = end - start;
        // SAFETY: the slots have room for the member's columns; all rows exist.
        unsafe {
            let mut tree = ChunkTree::new(slots, self.team.slots, 2 * len);
            for first in (0..self.team.rows).step_by(CHUNK) {
                let sums = tree.start();
                for row in first..self.team.rows.min(first + CHUNK) {
                    self.row(row, start, end, sums);
                }
                tree.push();
            }
            tree.finish(slots);
            std::ptr::copy_nonoverlapping(slots, result.add(start), len);
            std::ptr::copy_nonoverlapping(slots.add(len), result.add(self.team.n + start), len);
        }
    }

    unsafe fn row(&self, row: usize, start: usize, end: usize, sums: *mut T::Acc) {
        let (job, team) = (self.job, self.team);
        let (x, dy) = (self.direct(job.x.direct()), self.direct(job.dy.direct()));
        // SAFETY: the row exists; the parts belong to this member until the members meet.
        unsafe {
            let stat = job.stats.get(row);
            let per_feature = job.affine.span == 1;
            let gain = |at: usize| job.affine.gain.wrapping_add(if per_feature { at } else { 0 });
            let sums_of = |part: usize| self.part_sums.add((row % 2 * team.parts + part) * 2);
            for at in (start..end).step_by(team.part) {
                let n = team.part.min(end - at);
                let (x, dy) = (x.at(row).add(at), dy.at(row).add(at));
                let [g, dot] = T::part_dots(self.isa, PartDots { x, dy, gain: gain(at), per_feature, n, stat });
                *sums_of(at / team.part) = g;
                *sums_of(at / team.part).add(1) = dot;
            }
            self.meeting.wait();
            let (mut a, mut b) = (PairTree::new(), PairTree::new());
            for part in 0..team.parts {
                a.push(*sums_of(part));
                b.push(*sums_of(part).add(1));
            }
            let a = if job.norm.centered { a.finish() / job.norm.count } else { T::Acc::ZERO };
            let b = b.finish() / job.norm.count;
            let kernel = self.part(row, start, end, sums);
            if extreme::was_scaled(&job.norm, stat.r) || !(a + b).is_finite() {
                self.extreme_row(row, start, kernel);
            } else if start < end {
                T::part_gradient(self.isa, PartGradient { part: kernel, stat, a, b });
            }
        }
    }

    fn direct<P>(&self, rows: Option<Rows<P>>) -> Rows<P> {
        rows.expect("a team requires contiguous rows")
    }

    /// Returns the backward kernel for a part of a row, with its pointers at the part.
    unsafe fn part(&self, row: usize, start: usize, end: usize, sums: *mut T::Acc) -> Backward<T> {
        let job = self.job;
        let input = |rows: Rows<*const T>| Rows { ptr: rows.at(row).wrapping_add(start), stride: rows.stride };
        let dx = job.dx.map(|dx| self.direct(dx.direct()));
        let mut affine = job.affine;
        if affine.span == 1 {
            affine.gain = affine.gain.wrapping_add(start);
        }
        Backward {
            x: input(self.direct(job.x.direct())),
            dy: input(self.direct(job.dy.direct())),
            dh: job.dh.map(|dh| input(self.direct(dh.direct()))),
            dx: dx.map(|dx| Rows { ptr: dx.at(row).wrapping_add(start), stride: dx.stride }),
            rows: 1,
            n: end - start,
            first_row: row,
            norm: job.norm,
            affine,
            stats: job.stats,
            sums: Some(ParameterSums { gain: sums, bias: sums.wrapping_add(end - start) }),
            memory: job.memory(),
        }
    }

    /// Computes a row by rule 6. Each member computes the whole row and keeps its own columns; this is rare.
    #[cold]
    unsafe fn extreme_row(&self, row: usize, start: usize, part: Backward<T>) {
        // SAFETY: the row exists.
        unsafe {
            let (x, dy) = (self.direct(self.job.x.direct()).at(row), self.direct(self.job.dy.direct()).at(row));
            let whole = WholeRow { x, dy, gain: self.job.affine.gain, n: self.team.n };
            part.extreme_part(0, whole, start, self.job.stats.get(row));
        }
    }
}
