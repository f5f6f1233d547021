//! The library in one page: `cargo run --release -p layernorm --example quickstart`.

use layernorm::{Affine, Axes, Context, Error, LayerNorm, NormConfig, View, ViewMut, layer_norm};

fn main() -> Result<(), Error> {
    // A layer with its parameters: γ = 1 and β = 0 at the start. The input is a slice of whole rows.
    let norm = LayerNorm::new([4]);
    let x = [1.0f32, 2.0, 3.0, 4.0, 10_000.0, 10_000.001, 10_000.002, 10_000.003];
    println!("y        {:?}", norm.forward(&x)?);

    // Training: forward saves what backward needs.
    let (_, saved) = norm.forward_train(&x)?;
    let gradients = norm.backward(&x, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], &saved)?;
    println!("means    {:?}", saved.mean());
    println!("dx       {:?}", gradients.input);
    println!("dγ       {:?}", gradients.weight);

    // Functions over views: your memory, any axes, your γ and β. Here [N, C, W], normalized over the channels.
    let shape = [1, 4, 2];
    let (gain, bias) = ([2.0, 2.0, 2.0, 2.0], [0.5, 0.5, 0.5, 0.5]);
    let config = NormConfig::new()
        .axes(Axes::These(&[1]))
        .affine(Affine::new(View::new(&gain, &[4])?, View::new(&bias, &[4])?))
        .eps(1e-6);
    let mut y = [0.0; 8];
    let mut cx = Context::new();
    layer_norm::forward(View::new(&x, &shape)?, ViewMut::new(&mut y, &shape)?, None, &config, &mut cx)?;
    println!("channels {y:?}");

    // The same on one thread: the same bits, as always.
    let mut again = [0.0; 8];
    let mut cx = Context::new().with_threads(1)?;
    layer_norm::forward(View::new(&x, &shape)?, ViewMut::new(&mut again, &shape)?, None, &config, &mut cx)?;
    assert_eq!(y, again);

    // Invalid arguments are errors that say what was expected and what was found.
    if let Err(error) = norm.forward(&x[..7]) {
        println!("error    {error}");
    }
    Ok(())
}
