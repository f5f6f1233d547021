//! Training: a [`Spec`] determines all results of a run, and [`run`] executes it.
//!
//! ```text
//! Spec + Dataset → Net, optimizer → steps → events: evaluate, probes, trials, test → records
//!                        ↑              ↓
//!                        └─ checkpoint ─┘   a killed run resumes from the last one
//! ```
//!
//! The events of a run, by name ([`events`] has their types):
//!
//! | name | when | what |
//! |---|---|---|
//! | `evaluate` | before the first step and at even intervals up to the last | training and validation, loss and accuracy |
//! | `gradients` | with it, if probed | ‖∂L/∂W‖ of each layer |
//! | `time` | with it, if probed | ‖∂L/∂h‖ of each time step |
//! | `moments` | with it, if probed | mean and variance of hidden units before and after the norm |
//! | `correlation` | with it, if probed | correlations of hidden units before and after the norm |
//! | `activations` | with it, if probed | hidden units of some images, in three principal components |
//! | `geometry` | with it, if probed | radius and mean of the hidden units of some images before and after the norm |
//! | `affine` | with it, if probed | γ and β of each norm |
//! | `shift` | with it, if probed | how far the next step moves the layers' inputs and gradients |
//! | `weights` | with it, if probed | ‖W‖, ‖∂L/∂W‖ and the angle between them |
//! | `dynamics` | with it, if probed | states and gates of a recurrent network at each time step |
//! | `diverged` | when the loss becomes NaN or infinite; the run ends there | the step |
//! | `trial` | at the end, for each trial | loss and accuracy on the test images as modified by the trial, or on the training images |
//! | `statistics` | at the end, if probed | running statistics of batch norm at each time step |
//! | `test` | at the end | loss and accuracy on the test images |

pub(crate) mod adam;
pub(crate) mod checkpoint;
pub(crate) mod container;
mod dynamics;
mod evaluate;
pub mod events;
mod probes;
mod run;
mod saved;
pub(crate) mod schedule;
mod spec;
pub(crate) mod steps;
mod stream;
pub(crate) mod tensors;
#[cfg(test)]
mod tests;

pub(crate) use evaluate::numbers;
pub use events::row;
pub use run::{Outcome, run};
pub(crate) use run::{json, step_time};
pub(crate) use saved::FORMAT;
pub use saved::{Prediction, SavedModel};
pub use spec::{Images, Optimizer, Probes, Spec, Trial};
pub use stream::Stream;
