//! What is said where there is no driver, no GPU or no compiler. Each program starts with nothing opened, so one test each.
use layernorm_cuda::{Device, Error};

#[test]
fn without_a_driver_the_error_says_so() {
    match Device::open(0) {
        Ok(device) => println!("skipped: there is a GPU, {}", device.properties().name),
        Err(error @ Error::NoDriver { .. }) => {
            let text = error.to_string();
            assert!(text.contains("driver") && text.contains("libcuda"), "{text}");
        }
        Err(error @ (Error::OldDriver { .. } | Error::NoDevice { .. } | Error::Driver { .. })) => {
            println!("skipped: there is a driver: {error}");
        }
        Err(error) => panic!("another reason: {error}"),
    }
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    match Device::open(1000) {
        Err(Error::NoDevice { ordinal: 1000, count }) => assert!(count < 1000),
        Err(Error::NoDriver { .. } | Error::OldDriver { .. } | Error::Driver { .. }) => {
            println!("skipped: no driver that could count GPUs");
        }
        other => panic!("GPU 1000: {other:?}"),
    }
}
