//! Into the caller's memory, nothing is allocated: counted by the allocator itself. (Operations that need scratch memory take
//! it from the context, which has grown in the first call.) One test alone, so that no other allocates meanwhile.

use layernorm::{Affine, Context, Gradients, LayerNorm, NormConfig, Saved, View, ViewMut, layer_norm};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_call_into_given_memory_allocates_nothing() {
    let (rows, n) = (640, 300);
    let x: Vec<f32> = (0..rows * n).map(|i| (i % 97) as f32).collect();
    let (gain, bias) = (vec![1.5f32; n], vec![0.5f32; n]);
    let (mut y, mut h, mut dx) = (x.clone(), x.clone(), x.clone());
    let (mut dgain, mut dbias) = (gain.clone(), bias.clone());
    let mut saved = Saved::new(rows);
    let layer = LayerNorm::<f32>::new([n]);
    // Looked up once in the life of a process.
    layernorm::Isa::detect().unwrap();
    for threads in [1, 2] {
        let mut cx = Context::new().with_threads(threads).unwrap();
        let mut fresh = None;
        for round in 0..10 {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            let view = |data| View::new(data, &[rows, n]).unwrap();
            let affine = Affine::new(View::new(&gain, &[n]).unwrap(), View::new(&bias, &[n]).unwrap());
            let config = NormConfig::new().affine(affine);
            let to = ViewMut::new(&mut y, &[rows, n]).unwrap();
            layer_norm::forward(view(&x), to, Some(saved.as_mut()), &config, &mut cx).unwrap();
            // The plain contiguous forward needs no scratch memory at all, also in the first round (but for starting a thread).
            fresh.get_or_insert(ALLOCATIONS.load(Ordering::Relaxed) - before);
            let h_to = ViewMut::new(&mut h, &[rows, n]).unwrap();
            let to = ViewMut::new(&mut y, &[rows, n]).unwrap();
            layer_norm::forward_residual(view(&x), view(&x), h_to, to, None, &config, &mut cx).unwrap();
            // Strided: columns as rows.
            let transposed = View::strided(&x, &[n, rows], &[1, n as isize], 0).unwrap();
            let to = ViewMut::strided(&mut y, &[n, rows], &[1, n as isize], 0).unwrap();
            layer_norm::forward(transposed, to, None, &NormConfig::new(), &mut cx).unwrap();
            let gradients = Gradients {
                input: Some(ViewMut::new(&mut dx, &[rows, n]).unwrap()),
                weight: Some(ViewMut::new(&mut dgain, &[n]).unwrap().into()),
                bias: Some(ViewMut::new(&mut dbias, &[n]).unwrap().into()),
            };
            layer_norm::backward(view(&x), view(&x), saved.as_ref(), gradients, &config, &mut cx).unwrap();
            layer.forward_into(&x, &mut y, Some(&mut saved), &mut cx).unwrap();
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
            if round == 0 {
                // A thread allocates when it starts, which may be later than it was asked for.
                std::thread::sleep(std::time::Duration::from_millis(300));
            } else {
                assert_eq!(allocations, 0, "round {round} on {threads} threads");
            }
        }
        if threads == 1 {
            assert_eq!(fresh, Some(0), "the first contiguous forward");
        }
    }
}
