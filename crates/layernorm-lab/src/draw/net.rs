//! The network: two LSTMs, and the linear layers around them.

use super::attention::{PARAMETERS, Window};
use super::{Norms, Spec};
use crate::models::numbers::numbered;
use crate::models::{Dense, Norm, ParameterDraw, Start, initial};
use burn::module::{Module, Param};
use burn::tensor::activation::{log_sigmoid, sigmoid};
use burn::tensor::{Device, Tensor};
use layernorm_burn::Recurrent;
use layernorm_rnn::{Config, Kind, Variant};

/// A DRAW network.
#[derive(Module, Debug)]
pub(super) struct Net {
    encoder: Recurrent,
    decoder: Recurrent,
    /// h → μ and ln σ.
    posterior: Dense,
    /// d → what is written: a patch with attention, else the whole canvas.
    write: Dense,
    windows: Option<Windows>,
    /// c_0 `[R·C]`.
    canvas: Param<Tensor<1>>,
    #[module(skip)]
    size: Size,
}

/// d → the parameters of a window.
#[derive(Module, Debug)]
struct Windows {
    read: Dense,
    write: Dense,
}

/// Sizes that the forward pass needs.
#[derive(Clone, Copy, Debug)]
struct Size {
    image: [usize; 2],
    hidden: usize,
    latent: usize,
    attention: Option<[usize; 2]>,
}

/// An LSTM's state: h and c.
type State = [Option<Tensor<3>>; 2];

/// The two parts of the bound, each the mean over a batch, `[1]`.
pub(super) struct Loss {
    pub(super) reconstruction: Tensor<1>,
    pub(super) kl: Tensor<1>,
}

impl Net {
    /// A network for images of this size that starts from the canvas `canvas`, the logits of every pixel.
    pub(super) fn new(spec: &Spec, image: [usize; 2], canvas: &[f64], device: &Device) -> Result<Net, String> {
        let start = Start::new(spec.seed);
        let mut draw = ParameterDraw::new(&start, device);
        let pixels = image.iter().product::<usize>();
        let [read, write] = spec.patches(pixels);
        let &Spec { hidden, latent, attention, norms, .. } = spec;
        let dense = |inputs, outputs, draw: &mut ParameterDraw<'_>| Dense::new(inputs, outputs, Norm::None, draw);
        let encoder = lstm(norms, read + hidden, hidden, &mut draw)?;
        let decoder = lstm(norms, latent, hidden, &mut draw)?;
        let posterior = dense(hidden, 2 * latent, &mut draw);
        let write = dense(hidden, write, &mut draw);
        let windows = attention.map(|_| Windows {
            read: dense(hidden, PARAMETERS, &mut draw),
            write: dense(hidden, PARAMETERS, &mut draw),
        });
        let canvas = draw.param(canvas.iter().map(|&logit| logit as f32).collect(), [pixels]);
        let size = Size { image, hidden, latent, attention };
        Ok(numbered(Net { encoder, decoder, posterior, write, windows, canvas, size }))
    }

    /// The bound of binary images x `[B, R·C]` with the noise ε `[T, B, Z]`.
    pub(super) fn loss(&self, x: Tensor<2>, noise: Tensor<3>) -> Loss {
        let [batch, _] = x.dims();
        let (mut canvas, mut state) = self.blank(batch);
        let (mut encoder, mut divergence): (State, Option<Tensor<2>>) = ([None, None], None);
        for noise in noise.iter_dim(0) {
            let read = self.read(x.clone(), x.clone() - sigmoid(canvas.clone()), self.decoded(&state, batch));
            let input = Tensor::cat(vec![read, self.decoded(&state, batch)], 1);
            encoder = self.encoder.forward(input.unsqueeze_dim(1), encoder, None).1;
            let posterior = self.posterior.forward(output(&encoder, batch, self.size.hidden, &canvas));
            let mean = posterior.clone().narrow(1, 0, self.size.latent);
            let log_deviation = posterior.narrow(1, self.size.latent, self.size.latent);
            let deviation = log_deviation.clone().exp();
            let z = mean.clone() + deviation.clone() * noise.squeeze_dim(0);
            let nats = mean.square() + deviation.square() - log_deviation.mul_scalar(2.0).add_scalar(1.0);
            divergence = Some(match divergence {
                None => nats,
                Some(sum) => sum + nats,
            });
            (canvas, state) = self.drawn(canvas, state, z);
        }
        let nats = log_sigmoid(canvas.clone().neg()).neg() - x * canvas;
        let mean = |nats: Tensor<2>| nats.sum().div_scalar(batch as f64);
        let kl = divergence.map_or_else(|| Tensor::zeros([1], &nats.device()), |sum| mean(sum).mul_scalar(0.5));
        Loss { reconstruction: mean(nats), kl }
    }

    /// The canvases c_1 … c_T `[B, R·C]` drawn from z = `noise` `[T, B, Z]`.
    pub(super) fn generate(&self, noise: Tensor<3>) -> Vec<Tensor<2>> {
        let (mut canvas, mut state) = self.blank(noise.dims()[1]);
        let each = noise.iter_dim(0).map(|z| {
            (canvas, state) = self.drawn(canvas.clone(), state.clone(), z.squeeze_dim(0));
            canvas.clone()
        });
        each.collect()
    }

    /// The state before the first glimpse.
    fn blank(&self, batch: usize) -> (Tensor<2>, State) {
        (self.canvas.val().unsqueeze_dim::<2>(0).repeat_dim(0, batch), [None, None])
    }

    /// The next state of the canvas and of the decoder.
    fn drawn(&self, canvas: Tensor<2>, state: State, z: Tensor<2>) -> (Tensor<2>, State) {
        let batch = z.dims()[0];
        let state = self.decoder.forward(z.unsqueeze_dim(1), state, None).1;
        let d = self.decoded(&state, batch);
        let written = self.write.forward(d.clone());
        let written = match (&self.windows, self.size.attention) {
            (Some(windows), Some([_, filters])) => {
                Window::new(windows.write.forward(d), filters, self.size.image).write(written)
            }
            _ => written,
        };
        (canvas + written, state)
    }

    /// read(x, x̂, d).
    fn read(&self, x: Tensor<2>, error: Tensor<2>, d: Tensor<2>) -> Tensor<2> {
        match (&self.windows, self.size.attention) {
            (Some(windows), Some([filters, _])) => {
                let [rows, columns] = self.size.image;
                let image = |pixels: Tensor<2>| {
                    let [batch, _] = pixels.dims();
                    pixels.reshape([batch, rows, columns])
                };
                Window::new(windows.read.forward(d), filters, [rows, columns]).read(image(x), image(error))
            }
            _ => Tensor::cat(vec![x, error], 1),
        }
    }

    /// d `[B, H]`.
    fn decoded(&self, state: &State, batch: usize) -> Tensor<2> {
        output(state, batch, self.size.hidden, &self.canvas.val())
    }
}

/// h `[B, H]` of a state; zeros before the first step.
fn output<const D: usize>([h, _]: &State, batch: usize, hidden: usize, near: &Tensor<D>) -> Tensor<2> {
    match h {
        Some(h) => h.clone().squeeze_dim(0),
        None => Tensor::zeros([batch, hidden], &near.device()),
    }
}

/// An LSTM whose weights depend on the seed only.
fn lstm(norms: Norms, inputs: usize, hidden: usize, draw: &mut ParameterDraw<'_>) -> Result<Recurrent, String> {
    let seed = draw.seed();
    let made = || {
        let config = Config::new(variant(norms, draw.start.epsilon)?, inputs, hidden);
        Recurrent::from_network(&initial(config, seed, draw.start)?, true, draw.device)
    };
    made().map_err(|error: layernorm_rnn::Error| error.to_string())
}

/// The paper's LSTM, with a bias and with the norms in these places.
fn variant(norms: Norms, epsilon: f64) -> Result<Variant, layernorm_rnn::Error> {
    let mut cell = Variant::named(Kind::Lstm, "paper")?.with_eps(epsilon);
    cell.bias = true;
    if norms != Norms::All {
        (cell.input_norm, cell.recurrent_norm, cell.sum_norm) = (None, None, None);
    }
    if norms == Norms::None {
        cell.cell_norm = None;
    }
    Ok(cell)
}
