//! Modules follow Burn's conventions: configurations, errors, records, and interchangeable names.

use crate::common::{cpu, numbers, random, tensor, training, values};
use burn::config::Config as _;
use burn::module::{Module, Param};
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor, TensorData};
use layernorm_burn::{
    BatchNorm, BatchNormConfig, GroupNorm, GroupNormConfig, GruConfig, InstanceNorm, InstanceNormConfig, LayerNorm,
    LayerNormConfig, Lstm, LstmConfig, RmsNorm, RmsNormConfig, RnnConfig, WeightNormLinear, WeightNormLinearConfig,
};

/// The same program with Burn's modules and with ours: only the imports differ.
macro_rules! program {
    ($name:ident, $from:path) => {
        mod $name {
            use super::*;
            use $from::{
                BatchNorm, BatchNormConfig, GroupNorm, GroupNormConfig, InstanceNorm, InstanceNormConfig, LayerNorm,
                LayerNormConfig, RmsNorm, RmsNormConfig,
            };

            #[derive(Module, Debug)]
            pub struct Norms {
                layer: LayerNorm,
                rms: RmsNorm,
                group: GroupNorm,
                instance: InstanceNorm,
                batch: BatchNorm,
            }

            pub fn norms(device: &Device) -> Norms {
                Norms {
                    layer: LayerNormConfig::new(10).with_epsilon(1e-4).with_bias(true).init(device),
                    rms: RmsNormConfig::new(10).with_epsilon(1e-4).init(device),
                    group: GroupNormConfig::new(2, 6).with_affine(true).init(device),
                    instance: InstanceNormConfig::new(6).init(device),
                    batch: BatchNormConfig::new(6).with_momentum(0.2).init(device),
                }
            }

            pub fn forward(norms: &Norms, x: Tensor<3>) -> Vec<Tensor<3>> {
                vec![
                    norms.layer.forward(x.clone()),
                    norms.rms.forward(x.clone()),
                    norms.group.forward(x.clone()),
                    norms.instance.forward(x.clone()),
                    norms.batch.forward(x),
                ]
            }
        }
    };
}

program!(burns, burn::nn);
program!(ours, layernorm_burn);

/// For rows of 10 to 60 numbers of magnitude about 1, in f32.
const CLOSE: f32 = 1e-4;

#[test]
fn an_import_line_swaps_burns_modules_for_ours() {
    let x: Vec<f32> = random(1, 4 * 6 * 10);
    for device in [cpu(), training()] {
        let x = tensor(&x, [4, 6, 10], &device);
        let (burns_norms, ours_norms) = (burns::norms(&device), ours::norms(&device));
        for (burns, ours) in burns::forward(&burns_norms, x.clone()).iter().zip(ours::forward(&ours_norms, x)) {
            let pairs = values::<f32, 3>(burns).into_iter().zip(values::<f32, 3>(&ours));
            assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) <= CLOSE);
        }
        // The names are the same: a record of Burn's modules loads into ours.
        assert_eq!(burns_norms.num_params(), ours_norms.num_params());
        let bytes = burns_norms.into_record().into_bytes().unwrap();
        ours_norms.try_load_record(ModuleRecord::from_bytes(bytes).unwrap()).unwrap();
    }
}

#[derive(Module, Debug)]
struct Everything {
    layer: LayerNorm,
    rms: RmsNorm,
    group: GroupNorm,
    instance: InstanceNorm,
    batch: BatchNorm,
    linear: WeightNormLinear,
    lstm: Lstm,
    gru: layernorm_burn::Gru,
    rnn: layernorm_burn::Rnn,
}

fn everything(device: &Device) -> Everything {
    Everything {
        layer: LayerNormConfig::new(10).init(device),
        rms: RmsNormConfig::new(10).init(device),
        group: GroupNormConfig::new(2, 6).init(device),
        instance: InstanceNormConfig::new(6).init(device),
        batch: BatchNormConfig::new(6).init(device),
        linear: WeightNormLinearConfig::new(10, 10).init(device),
        lstm: LstmConfig::new(10, 7).with_variant("tflite").with_projection(5).with_layers(2).init(device),
        gru: GruConfig::new(10, 7).with_variant("paper").with_bidirectional(true).init(device),
        rnn: RnnConfig::new(10, 7).with_variant("split-relu").with_reverse(true).init(device),
    }
}

impl Everything {
    fn forward(&self, x: Tensor<3>) -> Vec<Vec<f32>> {
        let norms = [
            self.layer.forward(x.clone()),
            self.rms.forward(x.clone()),
            self.group.forward(x.clone()),
            self.instance.forward(x.clone()),
            self.batch.forward(x.clone()),
            self.linear.forward(x.clone()),
            self.lstm.forward(x.clone(), None).0,
            self.gru.forward(x.clone(), None).0,
            self.rnn.forward(x, None).0,
        ];
        norms.iter().map(values::<f32, 3>).collect()
    }
}

#[test]
fn records_come_back() {
    let (device, dir) = (cpu(), tempfile::tempdir().unwrap());
    let (saved, other) = (everything(&device), everything(&device));
    let x = tensor(&random::<f32>(1, 4 * 6 * 10), [4, 6, 10], &device);
    let expected = saved.forward(x.clone());
    assert_ne!(expected, other.forward(x.clone()));
    let path = dir.path().join("everything.bpk");
    saved.save_file(&path).unwrap();
    assert_eq!(other.load_file(&path).forward(x), expected);
}

#[test]
fn configurations_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lstm.json");
    let config = LstmConfig::new(3, 4).with_variant("keras").with_epsilon(0.01).with_layers(2).with_seed(5);
    config.save(&path).unwrap();
    let loaded = LstmConfig::load(&path).unwrap();
    assert_eq!(loaded, config);
    let one = config.init(&cpu()).net.to_network::<f32>().unwrap();
    assert_eq!(one, loaded.init(&cpu()).net.to_network::<f32>().unwrap());
    assert_eq!(one.config().variant.cell_norm.unwrap().norm.eps, 0.01);
}

#[test]
fn modules_show_what_they_are() {
    let device = cpu();
    let shown = format!("{}", LayerNormConfig::new(6).init(&device));
    assert_eq!(shown, format!("{}", burn::nn::LayerNormConfig::new(6).init(&device)));
    let shown = format!("{}", LstmConfig::new(2, 3).with_variant("paper").init(&device));
    assert!(shown.contains("variant: paper") && shown.contains("d_hidden: 3"), "{shown}");
    assert!(GruConfig::new(2, 3).to_string().contains("\"d_input\": 2"));
}

#[test]
fn bad_configurations_are_errors() {
    let device = cpu();
    let said = |error: &dyn std::fmt::Display, part: &str| assert!(error.to_string().contains(part), "{error}");
    said(&LayerNormConfig::new(4).with_epsilon(-1.0).try_init(&device).unwrap_err(), "eps: expected a finite number");
    said(&RmsNormConfig::new(4).with_epsilon(f64::NAN).try_init(&device).unwrap_err(), "eps: expected a finite number");
    said(&GroupNormConfig::new(4, 6).try_init(&device).unwrap_err(), "a divisor of the 6 channels, found 4");
    said(&GroupNormConfig::new(0, 6).try_init(&device).unwrap_err(), "a divisor of the 6 channels, found 0");
    said(&InstanceNormConfig::new(4).with_epsilon(-1.0).try_init(&device).unwrap_err(), "eps: expected");
    said(&BatchNormConfig::new(4).with_momentum(1.5).try_init(&device).unwrap_err(), "from 0 to 1, found 1.5");
    said(&LstmConfig::new(4, 4).with_variant("papier").try_init(&device).unwrap_err(), "torchaudio");
    said(&GruConfig::new(0, 4).try_init(&device).unwrap_err(), "input: expected 1");
    said(&RnnConfig::new(4, 4).with_layers(0).try_init(&device).unwrap_err(), "layers: expected 1");
}

/// The message of a panic.
fn panic_of(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(run).expect_err("expected a panic");
    payload.downcast_ref::<String>().cloned().or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string())).unwrap()
}

#[test]
fn what_does_not_fit_panics_with_the_cores_message() {
    let zeros = |shape: [usize; 3]| Tensor::<3>::zeros(shape, &cpu());
    let check = |run: &(dyn Fn() + std::panic::RefUnwindSafe), part: &str| {
        let message = panic_of(run);
        assert!(message.contains(part), "{message}");
    };
    check(
        &|| drop(LayerNormConfig::new(4).with_epsilon(-1.0).init(&cpu())),
        "layernorm: eps: expected a finite number",
    );
    check(
        &|| drop(LayerNormConfig::new(4).init(&cpu()).forward(zeros([2, 2, 3]))),
        "layernorm: weight: expected shape [3], found [4]",
    );
    check(
        &|| drop(GroupNormConfig::new(2, 4).with_affine(false).init(&cpu()).forward(zeros([2, 6, 3]))),
        "layernorm: input: expected shape [2, 4, 3], found [2, 6, 3]",
    );
    check(
        &|| drop(BatchNormConfig::new(4).init(&training()).forward(zeros([2, 6, 3]))),
        "layernorm: input: expected shape [2, 4, 3], found [2, 6, 3]",
    );
    check(
        &|| drop(LstmConfig::new(4, 5).init(&cpu()).forward(zeros([2, 6, 3]), None)),
        "layernorm: input: expected 48 elements",
    );
    check(
        &|| drop(GruConfig::new(3, 5).init(&cpu()).forward(zeros([2, 6, 3]), Some(zeros([2, 1, 5])))),
        "layernorm: initial h: expected shape [1, 2, 5], found [2, 1, 5]",
    );
    // One number that is expanded to more elements than fit in memory.
    let endless = || Tensor::<2>::zeros([1, 1], &cpu()).expand([1usize << 45, 4]);
    check(
        &|| drop(LayerNormConfig::new(4).init(&cpu()).forward(endless())),
        "layernorm: out of memory: 562949953421312 bytes",
    );
    check(
        &|| drop(BatchNormConfig::new(4).init(&cpu()).forward(endless())),
        "layernorm: out of memory: 562949953421312 bytes",
    );
    check(
        &|| drop(RnnConfig::new(3, 5).init(&cpu()).forward_lengths(zeros([2, 6, 3]), &[6, 7], None)),
        "layernorm: length of sequence 1: expected 1 to 6, found 7",
    );
}

/// Fields are public and records come from files: the same number of elements in other shapes would give different
/// results.
#[test]
fn parameters_of_other_shapes_are_refused() {
    let check = |change: &dyn Fn(&mut Lstm), part: &str| {
        let mut lstm = LstmConfig::new(20, 5).with_variant("paper").init(&cpu());
        change(&mut lstm);
        let error = lstm.net.to_network::<f32>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        let run = std::panic::AssertUnwindSafe(|| drop(lstm.forward(Tensor::zeros([2, 6, 20], &cpu()), None)));
        let message = panic_of(run);
        assert!(message.contains(part), "{message}");
    };
    let vector = |n| Param::from_tensor(Tensor::<1>::zeros([n], &cpu()));
    let matrix = |shape: [usize; 2]| Param::from_tensor(Tensor::<2>::zeros(shape, &cpu()));
    check(
        &|lstm| lstm.net.cells[0].input_weight = matrix([10, 40]),
        "input_weight of cell 0: expected one of shape [20, 20], found one of shape [10, 40]",
    );
    // One number fewer here and one more there: the total is right.
    check(
        &|lstm| {
            lstm.net.cells[0].cell_norm_gain = Some(vector(4));
            lstm.net.cells[0].cell_norm_bias = Some(vector(6));
        },
        "cell_norm.gain of cell 0: expected one of shape [5], found one of shape [4]",
    );
    check(&|lstm| lstm.net.cells[0].bias = None, "bias of cell 0: expected one of shape [20], found none");
    check(
        &|lstm| lstm.net.cells[0].input_bias = Some(vector(20)),
        "input_bias of cell 0: expected none, found one of shape [20]",
    );
    check(&|lstm| lstm.net.cells.clear(), "expected 1 cells, found 0");
}

/// W starts as v, and only the direction of v matters.
#[test]
fn weight_norm_starts_where_linear_does() {
    let device = cpu();
    let mut linear = WeightNormLinearConfig::new(7, 5).init(&device);
    let pairs = |linear: &WeightNormLinear| {
        let (w, v) = (values::<f32, 2>(&linear.weight()), values::<f32, 2>(&linear.v.val()));
        w.into_iter().zip(v).map(|(w, v)| (w - v).abs()).fold(0.0, f32::max)
    };
    assert!(pairs(&linear) <= 1e-6);
    let before = values::<f32, 2>(&linear.weight());
    linear.v = linear.v.map(|v| v.mul_scalar(4.0));
    assert_eq!(values::<f32, 2>(&linear.weight()), before);
}

/// Empty batches are accepted, as in the core.
#[test]
fn empty_batches_pass() {
    let device = cpu();
    let x = Tensor::<3>::from_data(TensorData::new(Vec::<f32>::new(), [0, 6, 10]), &device);
    let y = LayerNormConfig::new(10).init(&device).forward(x.clone());
    assert_eq!(y.dims(), [0, 6, 10]);
    let (y, state) = LstmConfig::new(10, 3).init(&device).forward(x, None);
    assert_eq!((y.dims(), state.cell.dims()), ([0, 6, 3], [1, 0, 3]));
    assert!(numbers(1, 0).is_empty());
}
