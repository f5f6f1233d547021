//! What rounding changes between a network and a file of it.

/// What rounding changed: numbers of a file are not exactly those of the network, or the other way round.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounding {
    /// The largest change of a number.
    pub largest: f64,
    /// The tensor with it, by its name in the file.
    pub tensor: String,
    /// How many numbers changed.
    pub numbers: usize,
}

impl Rounding {
    /// Counts a number that is so far from what it should be.
    pub(super) fn note(all: &mut Option<Rounding>, tensor: &str, distance: f64) {
        if distance == 0.0 {
            return;
        }
        let all = all.get_or_insert_with(|| Rounding { largest: 0.0, tensor: tensor.to_owned(), numbers: 0 });
        all.numbers += 1;
        if distance > all.largest {
            (all.largest, all.tensor) = (distance, tensor.to_owned());
        }
    }

    /// Both changes, one after the other: at most their sum.
    pub fn and_then(self, other: Rounding) -> Rounding {
        let tensor = if self.largest > other.largest { self.tensor } else { other.tensor };
        Rounding { largest: self.largest + other.largest, tensor, numbers: self.numbers + other.numbers }
    }
}

/// A sum of a few numbers and what rounding left of it: exact for two of them.
#[derive(Clone, Copy)]
pub(super) struct Exact {
    sum: f64,
    rest: f64,
}

impl Exact {
    pub fn of(number: f64) -> Exact {
        Exact { sum: number, rest: 0.0 }
    }

    /// Knuth's TwoSum.
    pub fn plus(self, number: f64) -> Exact {
        let sum = self.sum + number;
        let part = sum - self.sum;
        let rest = (self.sum - (sum - part)) + (number - part);
        Exact { sum, rest: self.rest + rest }
    }

    /// How far another number is from it. Two NaNs are the same, and so are two infinities of one sign.
    pub fn distance(self, other: f64) -> f64 {
        if other.is_nan() && self.sum.is_nan() || !other.is_finite() && other == self.sum {
            return 0.0;
        }
        let distance = ((other - self.sum) - self.rest).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}
