#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    layernorm_fuzz::formats::png::check(bytes);
});
