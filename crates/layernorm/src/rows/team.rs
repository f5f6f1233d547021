//! Backward for few, long rows: the threads share each row. A member has the same columns in every row, in parts of a
//! power-of-two number of blocks. So the sums of its parts are subtrees of the row's tree, and the sums down the rows
//! are local to a member. The members wait for each other once per row, when the sums along it are complete.

use super::backward::BackwardPass;
use super::chunk_tree::ChunkTree;
use crate::context::{Need, Scratch};
use crate::element::{Element, Float};
use crate::kernels::Rows;
use crate::kernels::backward::{Backward, ParameterSums, PartGradient, WholeRow};
use crate::kernels::dots::PartDots;
use crate::kernels::extreme;
use crate::sum::{BLOCK, CHUNK, PairTree};
use crate::threads::{self, Barrier, Shared};

/// Parts of a row per member: enough for nearly equal shares.
const PARTS_PER_MEMBER: usize = 4;

/// How rows are shared.
pub(super) struct Team {
    rows: usize,
    n: usize,
    members: usize,
    /// Elements per part: a power-of-two number of blocks.
    part: usize,
    /// Parts per row.
    parts: usize,
    /// Arrays of sums that a member may hold at once.
    slots: usize,
    /// Elements of those arrays: two sums for each of a member's columns, at most.
    slots_len: usize,
}

impl Team {
    pub(super) fn new(rows: usize, n: usize, members: usize) -> Team {
        let blocks = n.div_ceil(BLOCK);
        let blocks_per_part = (blocks / (members * PARTS_PER_MEMBER)).max(1);
        let part = (1 << blocks_per_part.ilog2()) * BLOCK;
        let slots = rows.div_ceil(CHUNK).max(1).next_power_of_two().ilog2() as usize + 2;
        let parts = n.div_ceil(part);
        let widest = (parts.div_ceil(members) * part).min(n);
        Team { rows, n, members, part, parts, slots, slots_len: 2 * widest * slots }
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

    pub(super) fn need<A>(&self) -> Need {
        let slots = Need::default().plus::<A>(self.slots_len).times(self.members);
        Need::default().plus::<A>(2 * self.n).plus::<A>(self.part_sums()).and(slots)
    }

    /// Returns the sums for γ, then for β, or `None` if the threads are not available now (then nothing was done).
    ///
    /// # Safety
    /// All operands of the pass have contiguous rows.
    pub(super) unsafe fn run<T: Element>(
        &self,
        pass: &BackwardPass<'_, T>,
        scratch: &mut Scratch,
    ) -> Option<*mut T::Acc> {
        let mut scratch = scratch.part(self.need::<T::Acc>());
        let result = scratch.take::<T::Acc>(2 * self.n);
        let part_sums = scratch.take::<T::Acc>(self.part_sums());
        let each = Need::default().plus::<T::Acc>(self.slots_len);
        // SAFETY: members write to separate columns, parts and slots.
        let shared = unsafe { Shared::new((&raw const *pass, result, part_sums, scratch)) };
        let called = threads::team(self.members, &|member, barrier| {
            let (pass, result, part_sums, scratch) = shared.get();
            let slots = scratch.nth(each, member).take::<T::Acc>(self.slots_len);
            // SAFETY: the pass outlives the call; the rest as above.
            unsafe { Member { team: self, pass: &*pass, part_sums, barrier }.work(member, slots, result) };
        });
        called.then_some(result)
    }
}

struct Member<'a, T: Element> {
    team: &'a Team,
    pass: &'a BackwardPass<'a, T>,
    part_sums: *mut T::Acc,
    barrier: &'a Barrier,
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
        let (pass, team, tensors) = (self.pass, self.team, &self.pass.plan.tensors);
        let (x, dy) = (self.direct(tensors.x.direct()), self.direct(tensors.dy.direct()));
        // SAFETY: the row exists; the parts belong to this member until the barrier.
        unsafe {
            let stat = pass.stats.get(row);
            let per_feature = pass.affine.span == 1;
            let gain = |at: usize| pass.affine.gain.wrapping_add(if per_feature { at } else { 0 });
            let sums_of = |part: usize| self.part_sums.add((row % 2 * team.parts + part) * 2);
            for at in (start..end).step_by(team.part) {
                let n = team.part.min(end - at);
                let (x, dy) = (x.at(row).add(at), dy.at(row).add(at));
                let [g, dot] = T::part_dots(pass.isa, PartDots { x, dy, gain: gain(at), per_feature, n, stat });
                *sums_of(at / team.part) = g;
                *sums_of(at / team.part).add(1) = dot;
            }
            self.barrier.wait();
            let (mut a, mut b) = (PairTree::new(), PairTree::new());
            for part in 0..team.parts {
                a.push(*sums_of(part));
                b.push(*sums_of(part).add(1));
            }
            let a = if pass.norm.centered { a.finish() / pass.norm.count } else { T::Acc::ZERO };
            let b = b.finish() / pass.norm.count;
            let kernel = self.part(row, start, end, sums);
            if extreme::was_scaled(&pass.norm, stat.r) || !(a + b).is_finite() {
                self.extreme_row(row, start, kernel);
            } else if start < end {
                T::part_gradient(pass.isa, PartGradient { part: kernel, stat, a, b });
            }
        }
    }

    fn direct<P>(&self, rows: Option<Rows<P>>) -> Rows<P> {
        rows.expect("a team requires contiguous rows")
    }

    /// Returns the backward kernel for a part of a row, with its pointers at the part.
    unsafe fn part(&self, row: usize, start: usize, end: usize, sums: *mut T::Acc) -> Backward<T> {
        let (pass, tensors) = (self.pass, &self.pass.plan.tensors);
        let input = |rows: Rows<*const T>| Rows { ptr: rows.at(row).wrapping_add(start), stride: rows.stride };
        let dx = tensors.dx.map(|dx| self.direct(dx.direct()));
        let mut affine = pass.affine;
        if affine.span == 1 {
            affine.gain = affine.gain.wrapping_add(start);
        }
        Backward {
            x: input(self.direct(tensors.x.direct())),
            dy: input(self.direct(tensors.dy.direct())),
            dh: tensors.dh.map(|dh| input(self.direct(dh.direct()))),
            dx: dx.map(|dx| Rows { ptr: dx.at(row).wrapping_add(start), stride: dx.stride }),
            rows: 1,
            n: end - start,
            first_row: row,
            norm: pass.norm,
            affine,
            stats: pass.stats,
            sums: Some(ParameterSums { gain: sums, bias: sums.wrapping_add(end - start) }),
            memory: pass.plan.memory,
        }
    }

    /// Computes a row by rule 6. Each member computes the whole row and keeps its own columns; this is rare.
    #[cold]
    unsafe fn extreme_row(&self, row: usize, start: usize, part: Backward<T>) {
        let tensors = &self.pass.plan.tensors;
        // SAFETY: the row exists.
        unsafe {
            let (x, dy) = (self.direct(tensors.x.direct()).at(row), self.direct(tensors.dy.direct()).at(row));
            let whole = WholeRow { x, dy, gain: self.pass.affine.gain, n: self.team.n };
            part.extreme_part(0, whole, start, self.pass.stats.get(row));
        }
    }
}
