//! What rounding changes between a network and its file.

/// What rounding changed: numbers in the file differ from those of the network, or vice versa.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounding {
    /// Largest change of a number.
    pub largest: f64,
    /// Name in the file of the tensor with the largest change.
    pub tensor: String,
    /// How many numbers changed.
    pub numbers: usize,
}

impl Rounding {
    /// Counts a number that is this far from its exact value.
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

    /// Combines two successive changes: at most their sum.
    pub fn and_then(self, other: Rounding) -> Rounding {
        let tensor = if self.largest > other.largest { self.tensor } else { other.tensor };
        Rounding { largest: self.largest + other.largest, tensor, numbers: self.numbers + other.numbers }
    }
}

/// A sum of a few numbers and its rounding error: exact for two of them.
#[derive(Clone, Copy)]
pub(super) struct Exact {
    sum: f64,
    rest: f64,
}

impl Exact {
    pub fn of(number: f64) -> Exact {
        Exact { sum: number, rest: 0.0 }
    }

    /// Adds a number by Knuth's TwoSum.
    pub fn plus(self, number: f64) -> Exact {
        let sum = self.sum + number;
        let part = sum - self.sum;
        let rest = (self.sum - (sum - part)) + (number - part);
        Exact { sum, rest: self.rest + rest }
    }

    /// Returns the distance to another number. Two NaNs are equal, and so are two infinities of the same sign.
    pub fn distance(self, other: f64) -> f64 {
        if other.is_nan() && self.sum.is_nan() || !other.is_finite() && other == self.sum {
            return 0.0;
        }
        let distance = ((other - self.sum) - self.rest).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}
