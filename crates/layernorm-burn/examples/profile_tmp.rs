//! tmp
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Tensor};
use layernorm_burn::LstmConfig;
use layernorm_rnn::*;
use std::time::Instant;
fn med(mut v: Vec<f64>) -> String { v.sort_by(f64::total_cmp); format!("{:.2}/{:.2}", v[0]*1e3, v[v.len()/2]*1e3) }
fn main() {
    let device = Device::flex().autodiff();
    for variant in ["none", "paper"] {
        let x = Tensor::<3>::random([64, 28, 28], Distribution::Normal(0.0, 1.0), &device);
        let target = Tensor::<3>::random([64, 28, 128], Distribution::Uniform(-0.5, 0.5), &device);
        let mut lstm = LstmConfig::new(28, 128).with_variant(variant).with_seed(1).init(&device);
        let mut adam = AdamConfig::new().init();
        let mut t: [Vec<f64>; 4] = Default::default();
        for _ in 0..40 {
            let s = Instant::now();
            let y = lstm.forward(x.clone(), None).0;
            t[0].push(s.elapsed().as_secs_f64());
            let s = Instant::now();
            let loss = (y - target.clone()).square().mean();
            t[1].push(s.elapsed().as_secs_f64());
            let s = Instant::now();
            let g = loss.backward();
            t[2].push(s.elapsed().as_secs_f64());
            let s = Instant::now();
            let g = GradientsParams::from_grads(g, &lstm);
            lstm = adam.step(1e-3, lstm, g);
            t[3].push(s.elapsed().as_secs_f64());
        }
        println!("{variant}: forward {} loss {} backward {} adam {}", med(t[0].clone()), med(t[1].clone()), med(t[2].clone()), med(t[3].clone()));
        let net = lstm.net.to_network::<f32>().unwrap();
        let data = vec![0.3f32; 64*28*28];
        for threads in [1, 2] {
            let mut r = Runner::<f32>::new(layernorm::Context::new().with_threads(threads).unwrap());
            let mut n = net.clone();
            let (mut a, mut b) = (vec![], vec![]);
            for _ in 0..40 {
                n.params_mut().values_mut()[0] += 0.0;
                let s = Instant::now();
                let seq = Sequences::new(&data, 28, 64).batch_first();
                let out = r.train(&n, &seq, None, Training::default()).unwrap();
                a.push(s.elapsed().as_secs_f64());
                let s = Instant::now();
                let _g = r.backward(&n, &out.y, None).unwrap();
                b.push(s.elapsed().as_secs_f64());
            }
            println!("  core {threads}: train {} backward {}", med(a), med(b));
        }
    }
}
