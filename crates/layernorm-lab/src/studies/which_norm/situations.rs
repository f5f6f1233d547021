//! The situations, and the findings that bear on each.

/// A situation in which a norm has to be chosen.
pub(super) struct Situation {
    pub(super) name: &'static str,
    pub(super) bearings: &'static [Bearing],
    /// What is known besides the findings.
    pub(super) remark: Option<&'static str>,
}

/// A finding that compares two options in a situation.
pub(super) struct Bearing {
    pub(super) study: &'static str,
    pub(super) finding: &'static str,
    /// The option that is better if the finding is supported.
    pub(super) better: &'static str,
    /// The option that is worse then.
    pub(super) worse: &'static str,
}

const NONE: &str = "no norm";
const BATCH: &str = "batch norm";
const LAYER: &str = "layer norm";
const RMS: &str = "RMS norm";
const GROUP: &str = "group norm";
const PRE: &str = "pre-norm";
const POST: &str = "post-norm";

const fn of(study: &'static str, finding: &'static str, better: &'static str, worse: &'static str) -> Bearing {
    Bearing { study, finding, better, worse }
}

const fn case(name: &'static str, bearings: &'static [Bearing]) -> Situation {
    Situation { name, bearings, remark: None }
}

/// All situations, in the order of the table. A situation counts every finding that compares two of its options in it, at the
/// common learning rate and at the best ones, whatever its verdict. Of findings that measure the same runs twice (during
/// training and at the end of it, in `language` and `draw`), the one on test data counts.
pub(super) const SITUATIONS: &[Situation] = &[
    case(
        "Images with large batches (CNN)",
        &[
            of("batch-size", "cnn-32", BATCH, LAYER),
            of("batch-size", "cnn-128", BATCH, LAYER),
            of("compare", "cnn-batch-norm", BATCH, LAYER),
            of("compare", "cnn-batch-norm-faster", BATCH, LAYER),
            of("compare", "cnn-best-batch-norm", BATCH, LAYER),
            of("compare", "cnn-better", LAYER, NONE),
            of("compare", "cnn-faster", LAYER, NONE),
            of("compare", "cnn-best-faster", LAYER, NONE),
            of("compare", "cnn-best-better", LAYER, NONE),
        ],
    ),
    case(
        "Batches of 1 to 4",
        &[
            of("batch-size", "small-1", LAYER, BATCH),
            of("batch-size", "small-2", LAYER, BATCH),
            of("batch-size", "small-4", LAYER, BATCH),
            of("batch-size", "small-best-4", LAYER, BATCH),
            of("batch-size", "smallest-none", LAYER, NONE),
            of("batch-size", "cnn-1", LAYER, BATCH),
            of("batch-size", "cnn-2", LAYER, BATCH),
            of("batch-size", "cnn-4", LAYER, BATCH),
            of("batch-size", "cnn-group-1", GROUP, BATCH),
            of("batch-size", "cnn-group-2", GROUP, BATCH),
            of("batch-size", "cnn-group-4", GROUP, BATCH),
            of("batch-size", "cnn-smallest-none", LAYER, NONE),
            of("batch-size", "lstm-1", LAYER, BATCH),
            of("batch-size", "lstm-2", LAYER, BATCH),
            of("batch-size", "lstm-4", LAYER, BATCH),
            of("batch-size", "lstm-smallest-none", LAYER, NONE),
        ],
    ),
    case(
        "Streams with changing classes",
        &[
            of("stream", "batch", LAYER, BATCH),
            of("stream", "none", LAYER, NONE),
            of("stream", "collected", LAYER, BATCH),
            of("stream", "several", LAYER, BATCH),
            of("stream", "recovery-none", LAYER, NONE),
            of("stream", "recovery-batch", LAYER, BATCH),
        ],
    ),
    case(
        "Recurrent networks",
        &[
            of("compare", "lstm-faster", LAYER, NONE),
            of("compare", "lstm-better", LAYER, NONE),
            of("compare", "lstm-best-faster", LAYER, NONE),
            of("compare", "lstm-best-sooner", LAYER, NONE),
            of("compare", "lstm-best-better", LAYER, NONE),
            of("compare", "middle-faster", LAYER, NONE),
            of("compare", "middle-better", LAYER, NONE),
            of("compare", "middle-best-faster", LAYER, NONE),
            of("compare", "middle-best-sooner", LAYER, NONE),
            of("compare", "middle-best-better", LAYER, NONE),
            of("compare", "middle-batch-norm", LAYER, BATCH),
            of("compare", "middle-best-batch-norm", LAYER, BATCH),
            of("batch-size", "lstm-32", LAYER, BATCH),
            of("batch-size", "lstm-128", LAYER, BATCH),
            of("step-statistics", "trained-length", LAYER, BATCH),
            of("language", "lstm-best-test", LAYER, NONE),
            of("language", "gru-best-test", LAYER, NONE),
            of("draw", "cell-test", LAYER, NONE),
        ],
    ),
    case(
        "Sequences of varying length",
        &[
            of("sequence-length", "rise", LAYER, BATCH),
            of("sequence-length", "batch-read-2", LAYER, BATCH),
            of("sequence-length", "batch-read-3", LAYER, BATCH),
            of("sequence-length", "batch-read-4", LAYER, BATCH),
            of("sequence-length", "none-read-2", LAYER, NONE),
            of("sequence-length", "none-read-3", LAYER, NONE),
            of("sequence-length", "none-read-4", LAYER, NONE),
            of("step-statistics", "longer-2", LAYER, BATCH),
            of("step-statistics", "longer-3", LAYER, BATCH),
            of("step-statistics", "longer-4", LAYER, BATCH),
            of("text-length", "short", LAYER, NONE),
            of("text-length", "long", LAYER, NONE),
        ],
    ),
    case(
        "Deep Transformers without warm-up",
        &[
            of("depth", "pre-8", PRE, POST),
            of("depth", "pre-12", PRE, POST),
            of("depth", "pre-low-rate", PRE, POST),
            of("depth", "pre-best", PRE, POST),
            of("depth", "pre-none", PRE, NONE),
            of("depth", "pre-none-best", PRE, NONE),
        ],
    ),
    case(
        "Shallow Transformers",
        &[
            of("depth", "pre-2", PRE, POST),
            of("compare", "pre-norm", PRE, POST),
            of("compare", "transformer-faster", POST, NONE),
            of("compare", "transformer-better", POST, NONE),
            of("compare", "transformer-best-faster", POST, NONE),
            of("compare", "transformer-best-better", POST, NONE),
            of("compare", "transformer-pre-faster", PRE, NONE),
            of("compare", "transformer-pre-better", PRE, NONE),
            of("compare", "transformer-pre-best-faster", PRE, NONE),
            of("compare", "transformer-pre-best-better", PRE, NONE),
        ],
    ),
    case(
        "MLPs",
        &[
            of("compare", "mlp-faster", LAYER, NONE),
            of("compare", "mlp-best-faster", LAYER, NONE),
            of("compare", "mlp-best-sooner", LAYER, NONE),
            of("compare", "mlp-best-better", LAYER, NONE),
            of("compare", "mlp-batch-norm", BATCH, LAYER),
            of("compare", "mlp-best-batch-norm", BATCH, LAYER),
            of("batch-size", "small-32", LAYER, BATCH),
            of("batch-size", "small-128", LAYER, BATCH),
            of("batch-size", "small-best-128", LAYER, BATCH),
            of("compare", "mlp-better", LAYER, NONE),
            of("compare", "mlp-rms", LAYER, RMS),
        ],
    ),
    case(
        "Uncertain learning rate",
        &[
            of("learning-rate", "mlp-layer-range", LAYER, NONE),
            of("learning-rate", "mlp-layer-highest", LAYER, NONE),
            of("learning-rate", "mlp-batch-range", BATCH, NONE),
            of("learning-rate", "mlp-batch-highest", BATCH, NONE),
            of("learning-rate", "lstm-layer-range", LAYER, NONE),
            of("learning-rate", "lstm-layer-highest", LAYER, NONE),
            of("learning-rate", "pixels-layer-range", LAYER, NONE),
            of("learning-rate", "pixels-layer-highest", LAYER, NONE),
        ],
    ),
    case(
        "Uncertain scale of inputs or initial weights",
        &[
            of("robustness", "input", LAYER, NONE),
            of("robustness", "weights", LAYER, NONE),
            of("robustness", "test-scale-none", LAYER, NONE),
            of("robustness", "test-scale-batch", LAYER, BATCH),
        ],
    ),
    case(
        "Few training images: the smallest gap between training and test loss",
        &[
            of("generalization", "gap-8", BATCH, LAYER),
            of("generalization", "gap-32", BATCH, LAYER),
            of("generalization", "gap-128", BATCH, LAYER),
            of("generalization", "layer-none", NONE, LAYER),
            of("generalization", "layer-none-8", NONE, LAYER),
            of("generalization", "layer-none-128", NONE, LAYER),
            of("generalization", "batch-none-8", BATCH, NONE),
            of("generalization", "batch-none-32", BATCH, NONE),
            of("generalization", "batch-none-128", BATCH, NONE),
        ],
    ),
    Situation {
        name: "Cheapest inference",
        bearings: &[],
        remark: Some(
            "No study measures this. At inference, batch norm's statistics are constants that can be merged into the \
             layer before it; layer norm and RMS norm have to be computed for every sample.",
        ),
    },
];
