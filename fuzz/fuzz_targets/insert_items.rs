#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    relive_fuzz::insert_items::check(data);
});
