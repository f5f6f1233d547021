//! Results in Rust for the inputs that `test_bits.py` sends: norms and recurrent networks, forward and backward.
//!
//! A case is a line of words followed by its arrays, one line of hexadecimal bytes each. The answer has the same form.
//!
//! ```text
//! norm <layer|rms|group|instance|batch> <type> <groups> <ε> <shape>     x, γ, β, dy           → y, dx, dγ, dβ
//! rnn <kind> <variant> <type> <layers> <directions> <T> <B> <I> <H>      parameters, x, dy    → y, dx, dparameters
//! ```

use layernorm::batch_norm::{self, BatchConfig};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::{
    Affine, Axes, Context, Element, Gradients, NormConfig, Saved, View, ViewMut, bf16, f16, layer_norm, rms_norm,
};
use layernorm_rnn::{Config, Direction, Kind, Network, Params, Real, Runner, Sequences, Training, Variant};
use std::error::Error;
use std::io::{BufRead, StdinLock, Write};

type Answer = Result<(), Box<dyn Error>>;

/// An element type that can be read and written as little-endian bytes.
trait Bits: Element {
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    fn to_hex(values: &[Self]) -> String;
}

macro_rules! bits {
    ($($type:ty),*) => {$(
        impl Bits for $type {
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                let each = bytes.chunks_exact(size_of::<$type>());
                each.map(|chunk| <$type>::from_le_bytes(chunk.try_into().unwrap_or_default())).collect()
            }

            fn to_hex(values: &[Self]) -> String {
                values.iter().flat_map(|value| value.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
            }
        }
    )*};
}
bits!(f16, bf16, f32, f64);

struct Cases<'a> {
    input: StdinLock<'a>,
}

impl Cases<'_> {
    fn line(&mut self) -> Result<Option<String>, Box<dyn Error>> {
        let mut line = String::new();
        Ok((self.input.read_line(&mut line)? > 0).then(|| line.trim().to_owned()))
    }

    fn array<T: Bits>(&mut self) -> Result<Vec<T>, Box<dyn Error>> {
        let line = self.line()?.ok_or("the input ends inside a case")?;
        let bytes = (0..line.len()).step_by(2).map(|i| u8::from_str_radix(&line[i..i + 2], 16));
        Ok(T::from_bytes(&bytes.collect::<Result<Vec<_>, _>>()?))
    }
}

fn main() -> Answer {
    let mut cases = Cases { input: std::io::stdin().lock() };
    let mut out = std::io::stdout().lock();
    while let Some(line) = cases.line()? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["norm", kind, dtype, groups, eps, shape] => {
                let shape = shape.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
                let (groups, eps) = (groups.parse()?, eps.parse()?);
                match dtype {
                    "float16" => norm::<f16>(&mut cases, kind, groups, eps, &shape, &mut out)?,
                    "bfloat16" => norm::<bf16>(&mut cases, kind, groups, eps, &shape, &mut out)?,
                    "float32" => norm::<f32>(&mut cases, kind, groups, eps, &shape, &mut out)?,
                    _ => norm::<f64>(&mut cases, kind, groups, eps, &shape, &mut out)?,
                }
            }
            ["rnn", kind, variant, dtype, ref sizes @ ..] => {
                let kind = Kind::ALL.into_iter().find(|k| k.name() == kind).ok_or("no such kind")?;
                let sizes = sizes.iter().map(|size| size.parse()).collect::<Result<Vec<usize>, _>>()?;
                match dtype {
                    "float32" => rnn::<f32>(&mut cases, Variant::named(kind, variant)?, &sizes, &mut out)?,
                    _ => rnn::<f64>(&mut cases, Variant::named(kind, variant)?, &sizes, &mut out)?,
                }
            }
            _ => return Err(format!("no case begins like this: {line}").into()),
        }
    }
    Ok(())
}

fn norm<T: Bits>(
    cases: &mut Cases<'_>,
    kind: &str,
    groups: usize,
    eps: f64,
    shape: &[usize],
    out: &mut impl Write,
) -> Answer {
    let (x, weight, bias, dy) = (cases.array::<T>()?, cases.array::<T>()?, cases.array::<T>()?, cases.array::<T>()?);
    let width = [weight.len()];
    let affine = Affine::new(View::new(&weight, &width)?, View::new(&bias, &width)?);
    let mut y = vec![T::default(); x.len()];
    let (mut dx, mut dweight, mut dbias) = (y.clone(), weight.clone(), bias.clone());
    let rows = match kind {
        "layer" | "rms" => x.len() / weight.len(),
        "group" => shape[0] * groups,
        "instance" => shape[0] * shape[1],
        _ => shape[1],
    };
    let mut saved = Saved::new(rows);
    let cx = &mut Context::new();
    let (x, dy, to) = (View::new(&x, shape)?, View::new(&dy, shape)?, ViewMut::new(&mut y, shape)?);
    let gradients = Gradients {
        input: Some(ViewMut::new(&mut dx, shape)?),
        weight: Some(ViewMut::new(&mut dweight, &width)?.into()),
        bias: Some(ViewMut::new(&mut dbias, &width)?.into()),
    };
    match kind {
        "layer" | "rms" => {
            let config = NormConfig { axes: Axes::Last(1), affine, eps };
            if kind == "layer" {
                layer_norm::forward(x, to, Some(saved.as_mut()), &config, cx)?;
                layer_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx)?;
            } else {
                rms_norm::forward(x, to, Some(saved.as_mut()), &config, cx)?;
                rms_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx)?;
            }
        }
        "group" => {
            let config = GroupConfig { groups, affine, eps };
            group_norm::forward(x, to, Some(saved.as_mut()), &config, cx)?;
            group_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx)?;
        }
        "instance" => {
            let config = InstanceConfig { affine, eps };
            instance_norm::forward(x, to, Some(saved.as_mut()), &config, cx)?;
            instance_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx)?;
        }
        _ => {
            let config = BatchConfig { affine, eps };
            batch_norm::forward(x, to, saved.as_mut(), &config, cx)?;
            batch_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx)?;
        }
    }
    for values in [&y, &dx, &dweight, &dbias] {
        writeln!(out, "{}", T::to_hex(values))?;
    }
    Ok(())
}

fn rnn<T: Bits + Real + Element<Acc = T>>(
    cases: &mut Cases<'_>,
    variant: Variant,
    sizes: &[usize],
    out: &mut impl Write,
) -> Answer {
    let &[layers, directions, steps, batch, inputs, hidden] = sizes else { return Err("expected six sizes".into()) };
    let direction = if directions == 2 { Direction::Both } else { Direction::Forward };
    let config = Config::new(variant, inputs, hidden).with_layers(layers).with_direction(direction);
    let mut params = Params::zeros(&config)?;
    params.values_mut().copy_from_slice(&cases.array::<T>()?);
    let network = Network::from_params(config, params)?;
    let (x, dy) = (cases.array::<T>()?, cases.array::<T>()?);
    let mut runner = Runner::<T>::default();
    let output = runner.train(&network, &Sequences::new(&x, steps, batch), None, Training::default())?;
    let gradients = runner.backward(&network, &dy, None)?;
    for values in [&output.y[..], &gradients.input, gradients.params.values()] {
        writeln!(out, "{}", T::to_hex(values))?;
    }
    Ok(())
}
