//! A layer-normalized LSTM over a batch of sequences on the GPU, compared with the CPU engine.

use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::recurrent::{Layer, Number, Order, Parameters, Route, Run, Shape, State};
use layernorm_cuda::{Device, Error};
use layernorm_rnn::{Config, Init, Kind, Network, Runner, Sequences, Variant};

const STEPS: usize = 50;
const BATCH: usize = 16;
const INPUT: usize = 28;
const HIDDEN: usize = 256;

fn on_gpu(device: &Device, network: &Network<f32>, x: &[f32]) -> Result<Vec<f32>, Error> {
    let layer = Layer {
        variant: network.config().variant,
        input: INPUT,
        hidden: HIDDEN,
        number: Number::F32,
        params: Number::F32,
        tf32: false,
        reverse: false,
    };
    let shape = Shape { steps: STEPS, batch: BATCH, order: Order::TimeFirst, lengths: false };
    let route = Route::new(device, layer, shape, false)?;

    let mut params = Parameters::default();
    let mut kept = Vec::new();
    for entry in network.params().entries() {
        let buffer = Buffer::from_slice(device, &network.params().values()[entry.range.clone()])?;
        params = params.with(entry.slot, buffer.at(0));
        kept.push(buffer);
    }
    let (x, y) = (Buffer::from_slice(device, x)?, Buffer::<f32>::new(device, STEPS * BATCH * HIDDEN)?);
    let work = Buffer::<u8>::new(device, route.workspace_bytes())?;
    let run = Run {
        params,
        x: x.at(0),
        y: y.at(0),
        y_pitch: HIDDEN,
        first: State::default(),
        last: State::default(),
        lengths: 0,
        tape: 0,
        workspace: work.at(0),
    };
    let stream = OwnedStream::new(device)?;
    // SAFETY: all buffers have the sizes that the shape requires, and live until the stream has been synchronized.
    unsafe { route.forward(stream.stream(), &run)? };
    stream.synchronize()?;
    route.check()?;
    let mut found = vec![0.0; y.len()];
    y.read(0, &mut found)?;
    Ok(found)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let variant = Variant::named(Kind::Lstm, "paper")?;
    let network = Network::<f32>::new(Config::new(variant, INPUT, HIDDEN), Init::for_variant(&variant), 1)?;
    let x: Vec<f32> = (0..STEPS * BATCH * INPUT).map(|i| (i as f32 * 0.37).sin()).collect();
    let cpu = Runner::default().forward(&network, &Sequences::new(&x, STEPS, BATCH), None)?.y;

    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => return Err(format!("this example needs a GPU: {error}").into()),
    };
    println!("{}", device.properties().name);
    let gpu = on_gpu(&device, &network, &x)?;
    let furthest = gpu.iter().zip(&cpu).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{STEPS} steps of {BATCH} sequences, {HIDDEN} units: largest difference from the CPU {furthest:.1e}");
    Ok(())
}
