//! DRAW (Gregor et al., 2015) on binary digits: the variational bound without a norm and with layer norm on the cells
//! of its LSTMs, as in section 6.4 of Ba, Kiros and Hinton (2016).
//!
//! ```text
//! quick   14×14 pixels,  6 glimpses,  64 units, no attention
//! full    28×28 pixels, 16 glimpses, 128 units, attention; also with layer norm on gates and cell
//! paper   28×28 pixels, 64 glimpses, 256 units, attention, 200 epochs: the study `draw-paper`, which only runs if it is
//!         named
//! ```
//!
//! The quick study has no attention because windows take several hundred steps to find the digit.

mod pictures;
#[cfg(test)]
mod tests;

use super::plan::Drawing;
use super::{RunPlan, Settings, Study, tools, trained};
use crate::draw::{Norms, Spec};
use crate::records::Record;
use crate::report::Story;
use crate::training::Images;

/// Study of DRAW.
pub struct Draw;

/// The same at the paper's size.
pub struct DrawPaper;

/// Sizes of a network and its training.
struct Size {
    images: Images,
    glimpses: usize,
    hidden: usize,
    latent: usize,
    attention: Option<[usize; 2]>,
    learning_rate: f64,
    batch_size: usize,
    epochs: usize,
    evaluations: usize,
    norms: &'static [Norms],
}

const ORIGINAL: Images = Images { cropped: false, halved: false, permuted: false };
const HALVED: Images = Images { halved: true, ..ORIGINAL };

/// The learning rate is the best of 0.003, 0.006 and 0.01 for the network without a norm: the lowest final validation
/// bound of seeds 1 and 2.
const QUICK: Size = Size {
    images: HALVED,
    glimpses: 6,
    hidden: 64,
    latent: 10,
    attention: None,
    learning_rate: 6e-3,
    batch_size: 64,
    epochs: 2,
    evaluations: 10,
    norms: &[Norms::None, Norms::Cell],
};

const FULL: Size = Size {
    images: ORIGINAL,
    glimpses: 16,
    hidden: 128,
    latent: 20,
    attention: Some([5, 5]),
    learning_rate: 2e-3,
    batch_size: 128,
    epochs: 2,
    evaluations: 12,
    norms: &[Norms::None, Norms::Cell, Norms::All],
};

/// The paper gives glimpses, units, batch size, optimizer and epochs; z and the attention are those of Gregor et al.
/// (Table 3).
const PAPER: Size = Size {
    images: ORIGINAL,
    glimpses: 64,
    hidden: 256,
    latent: 100,
    attention: Some([2, 5]),
    learning_rate: 1e-3,
    batch_size: 128,
    epochs: 200,
    evaluations: 100,
    norms: &[Norms::None, Norms::Cell],
};

/// Numbers of training, validation and test images of the quick study.
const QUICK_IMAGES: [usize; 3] = [6000, 500, 500];
/// The most validation images of the full study: evaluations would take as long as training otherwise.
const MOST_VALIDATED: usize = 2000;
/// Number of generated digits, drawn by the first seed's networks.
const DIGITS: usize = 16;

fn spec(size: &Size, norms: Norms, seed: u64, [train, validation, test]: [usize; 3], settings: &Settings) -> Spec {
    let mut spec = Spec {
        norms,
        seed,
        glimpses: size.glimpses,
        hidden: size.hidden,
        latent: size.latent,
        attention: size.attention,
        images: size.images,
        learning_rate: settings.learning_rate.unwrap_or(size.learning_rate),
        batch_size: settings.batch_size.unwrap_or(size.batch_size),
        steps: 0,
        evaluations: size.evaluations,
        data: settings.data.clone(),
        train,
        validation,
        test,
        digits: if seed == 1 { DIGITS } else { 0 },
    };
    spec.steps = settings.epochs.unwrap_or(size.epochs).saturating_mul(spec.steps_of_epoch());
    spec
}

fn plans(
    study: &str,
    size: &Size,
    images: [usize; 3],
    seeds: impl Iterator<Item = u64>,
    settings: &Settings,
) -> Vec<RunPlan> {
    let runs = seeds.flat_map(|seed| size.norms.iter().map(move |&norms| (seed, norms)));
    let plan = |(seed, norms): (u64, Norms)| {
        let drawing = Drawing {
            case: norms.name().to_owned(),
            seed,
            full: settings.full,
            options: trained::options(settings),
            image: trained::image_of(settings),
            draw: spec(size, norms, seed, images, settings),
        };
        RunPlan::draw(study, drawing)
    };
    runs.map(plan).collect()
}

impl Study for Draw {
    fn name(&self) -> &'static str {
        "draw"
    }

    fn question(&self) -> &'static str {
        "Does layer norm help a network that draws digits?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        if !settings.full {
            return plans(self.name(), &QUICK, QUICK_IMAGES, tools::seeds(settings), settings);
        }
        let [train, validation, test] = settings.all_images();
        plans(self.name(), &FULL, [train, validation.min(MOST_VALIDATED), test], tools::seeds(settings), settings)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), "Drawing digits (DRAW)", self.question(), records)
    }
}

impl Study for DrawPaper {
    fn name(&self) -> &'static str {
        "draw-paper"
    }

    fn question(&self) -> &'static str {
        "Does layer norm help DRAW at the size of the paper?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        plans(self.name(), &PAPER, settings.all_images(), tools::seeds(settings), settings)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), "DRAW at the paper's size", self.question(), records)
    }

    fn takes(&self) -> Option<&'static str> {
        Some("about 3 core-days per seed with all of MNIST")
    }
}
