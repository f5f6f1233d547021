//! Findings: yes/no questions with their evidence and verdict.

use serde::Serialize;
use std::fmt;

/// A claim that is true or false, what was measured, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Unique in its story, and the same in every version; used in links.
    pub id: String,
    /// The claim, as a sentence without a full stop.
    pub claim: String,
    /// Number of the claim in the project's list of claims, such as `C1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What was measured.
    pub evidence: Evidence,
    /// The same in a few words, such as `−1.2 nats (−2 to −0.4)`.
    pub result: String,
    /// What follows from the evidence.
    pub verdict: Verdict,
    /// Why the claim is contradicted or undecided, in a sentence or two; `None` if it is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// Whether the evidence decides a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The evidence agrees with the claim.
    Supported,
    /// The evidence agrees with the opposite.
    Contradicted,
    /// The evidence agrees with both.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Supported => "supported",
            Verdict::Contradicted => "contradicted",
            Verdict::Undecided => "undecided",
        })
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Evidence {
    /// Differences between two conditions.
    Paired(Paired),
    /// A result that does not depend on chance.
    Exact {
        /// The result.
        found: String,
        /// The result if the claim is true.
        expected: String,
    },
    /// The number of cases in which the claim holds.
    Count {
        /// How often it holds.
        count: usize,
        /// The number of cases.
        of: usize,
        /// What is counted, such as `shapes`.
        what: String,
    },
}

/// Differences between two conditions that share seed, data and order of the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// The quantity and the two conditions, such as `validation error, layer norm − no norm`.
    pub what: String,
    /// Unit of the differences; empty for pure numbers.
    pub unit: String,
    /// One difference for each seed that has both results.
    pub differences: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// The 95 % interval of the mean; `None` with fewer than two seeds.
    pub interval: Option<[f64; 2]>,
    /// The probability of a mean this far from zero, on either side, if there is no effect; `None` with fewer than two
    /// seeds.
    pub p: Option<f64>,
    /// Where the mean lies if the claim is true.
    pub claimed: Side,
}

/// A side of zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Negative differences.
    Below,
    /// Positive differences.
    Above,
}

/// Number of questions by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Supported claims.
    pub supported: usize,
    /// Contradicted claims.
    pub contradicted: usize,
    /// Undecided claims.
    pub undecided: usize,
}

impl Verdicts {
    /// Counts the verdicts of findings.
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Verdicts {
        findings.into_iter().fold(Verdicts::default(), |mut count, finding| {
            match finding.verdict {
                Verdict::Supported => count.supported += 1,
                Verdict::Contradicted => count.contradicted += 1,
                Verdict::Undecided => count.undecided += 1,
            }
            count
        })
    }

    /// The number of questions.
    pub fn total(&self) -> usize {
        self.supported + self.contradicted + self.undecided
    }
}

/// Such as `43 questions: 31 supported, 4 contradicted, 8 undecided`.
impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdicts { supported, contradicted, undecided } = self;
        let questions = if self.total() == 1 { "question" } else { "questions" };
        write!(
            f,
            "{} {questions}: {supported} supported, {contradicted} contradicted, {undecided} undecided",
            self.total()
        )
    }
}
