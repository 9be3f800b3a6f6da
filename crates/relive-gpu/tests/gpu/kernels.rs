//! Compares single functions of the kernels, compiled for the CPU, with other implementations, and runs kernels with
//! addresses and indices that need more than 32 bits.

#![expect(unsafe_code, reason = "functions of C, and memory that they access by address")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it does nothing"
)]

use crate::support;
use crate::support::numbers::mixed;
use libloading::{Library, Symbol};
use relive_gpu::cuda::Shape;
use relive_gpu::select::{philox, power};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

fn kernels() -> Option<&'static Library> {
    support::kernels().map_err(|reason| println!("not tested: {reason}")).ok()
}

fn function<T>(library: &'static Library, name: &str) -> Symbol<'static, T> {
    // SAFETY: `launch.h` defines it with this type.
    unsafe { library.get(name.as_bytes()) }.unwrap()
}

#[expect(clippy::cast_possible_truncation, reason = "halves of numbers")]
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Includes bounds near 2⁶⁴, where every carry matters.
#[test]
fn random_numbers_match_the_cpu() {
    let Some(library) = kernels() else { return };
    let below = function::<unsafe extern "C" fn(u64, u64, u64, u64) -> u64>(library, "emulate_number_below");
    let word = function::<unsafe extern "C" fn(u64, u64, u64) -> u32>(library, "emulate_stream_word");
    for number in 0..20_000 {
        let [seed, step, position] = [1, 2, 3].map(|part| mixed(number * 4 + part));
        let step = step >> 8;
        let bound = u64::MAX - (mixed(number) >> (number % 64));
        let [[a, b], [c, d]] = [halves(position), halves(step)];
        let words = philox([a, b, c, d], halves(seed)).map(u128::from);
        let (low, high) = (words[0] | words[1] << 32, words[2] | words[3] << 32);
        let bits = u128::from(bound);
        let expected = (high * bits + ((low * bits) >> 64)) >> 64;
        // SAFETY: plain numbers.
        assert_eq!(u128::from(unsafe { below(seed, step, position, bound) }), expected);

        let [a, b] = halves(position / 4);
        let words = philox([a, b, c, d | 2 << 24], halves(seed));
        // SAFETY: plain numbers.
        assert_eq!(unsafe { word(seed, step, position) }, words[usize::try_from(position % 4).unwrap()]);
    }
}

#[test]
fn powers_match_the_cpu_bit_for_bit() {
    let Some(library) = kernels() else { return };
    let emulated = function::<unsafe extern "C" fn(f32, f32) -> f32>(library, "emulate_power");
    for number in 0..200_000 {
        let [bits, _] = halves(mixed(number));
        let base = f32::from_bits(bits & 0x7fff_ffff);
        if base.is_finite() && base > 0.0 {
            for exponent in [0.0, 0.4, 0.6, 1.0, 3.0] {
                // SAFETY: plain numbers.
                let there = unsafe { emulated(base, exponent) };
                assert_eq!(there.to_bits(), power(base, exponent).to_bits(), "{base}^{exponent}");
            }
        }
    }
}

/// All f16 values, and many f32 values, including those between two f16 values.
#[test]
fn conversions_match_another_implementation() {
    let Some(library) = kernels() else { return };
    let from_f16 = function::<unsafe extern "C" fn(u32) -> u32>(library, "emulate_from_f16");
    let to_f16 = function::<unsafe extern "C" fn(u32) -> u32>(library, "emulate_to_f16");
    let to_bf16 = function::<unsafe extern "C" fn(u32) -> u32>(library, "emulate_to_bf16");
    let check = |bits: u32| {
        let value = f32::from_bits(bits);
        // SAFETY: plain numbers.
        let there = unsafe { [to_f16(bits), to_bf16(bits)] };
        let here = [half::f16::from_f32(value).to_bits(), half::bf16::from_f32(value).to_bits()];
        assert_eq!(there, here.map(u32::from), "{value:e} ({bits:#x})");
    };
    for half in 0..=u16::MAX {
        let value = half::f16::from_bits(half).to_f32();
        // SAFETY: plain numbers.
        assert_eq!(unsafe { from_f16(u32::from(half)) }, value.to_bits(), "{half:#x}");
        for near in [0, 1, u32::MAX, 0xfff, 0x1000, 0x1001, 0x2000] {
            check(value.to_bits().wrapping_add(near));
        }
        check(u32::from(half) << 16 | 0x8000);
    }
    (0..300_000).for_each(|number| check(halves(mixed(number))[0]));
}

/// Memory of zeros, whose pages exist only once they are accessed.
struct Sparse {
    start: *mut u8,
    bytes: usize,
}

impl Sparse {
    fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping, at an address that the system chooses.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }.unwrap_or_else(|error| {
                panic!("cannot reserve {bytes} bytes of addresses ({error}); is vm.overcommit_memory 2?")
            });
        Self { start: start.cast(), bytes }
    }

    fn address(&self) -> u64 {
        self.start as u64
    }

    fn part(&mut self, at: u64, bytes: u64) -> &mut [u8] {
        let [at, bytes] = [at, bytes].map(|number| usize::try_from(number).unwrap());
        assert!(at + bytes <= self.bytes);
        // SAFETY: the bytes are mapped, and borrowed with this value.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), bytes) }
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, to which no reference is left.
        unsafe { munmap(self.start.cast(), self.bytes) }.unwrap();
    }
}

/// Runs a kernel with a parameter of 64-bit fields.
///
/// # Safety
/// The fields must be the kernel's, and addresses among them valid.
unsafe fn run(library: &Library, name: &str, threads: u32, fields: &[u64]) {
    let shape = Shape { blocks: 1, threads };
    // SAFETY: the caller's contract.
    unsafe { support::launch(library, name, shape, bytemuck::cast_slice(fields)) };
}

/// Defect 22: only the last piece of the second row is collected, so that most of the memory stays untouched. The row
/// is 11 GiB after the first one in the store, its window starts after 5 GiB, and so does its output.
#[test]
fn pieces_beyond_4_gib_are_collected() {
    let Some(library) = kernels() else { return };
    const PIECE: u64 = 8192;
    const STEPS: u64 = (5 << 30) / PIECE;
    const PADDING: u64 = 0x0706_0504_0302_0100;
    let (mut store, mut out) = (Sparse::new(22 << 30), Sparse::new(20 << 30));
    let data: Vec<u8> = (0..PIECE).map(|at| mixed(at).to_le_bytes()[0]).collect();
    store.part((21 << 30) - PIECE, PIECE).copy_from_slice(&data);
    let half = |byte: &u8| half::f16::from_f32(f32::from(*byte)).to_le_bytes();
    let halves: Vec<u8> = data[data.len() / 2..].iter().flat_map(half).collect();
    let padding = PADDING.to_le_bytes().repeat(data.len() / 8);
    // Types as in `collect.cu`: bytes as they are, or u8 to f16.
    for (from, to, widening, available, expected) in
        [(0, 0, 1, 2 * STEPS, &data), (1, 2, 2, 2 * STEPS, &halves), (0, 0, 1, 0, &padding)]
    {
        let row_bytes = STEPS * PIECE * widening;
        let pieces_per_row = row_bytes / PIECE;
        let first_piece = (2 * pieces_per_row - 1).wrapping_neg();
        let (source, stride, scale) = (store.address(), 11 << 30, 1_f64.to_bits());
        let window = [source, stride, PIECE, 0, STEPS, 0, PADDING, PADDING];
        let output = [out.address(), row_bytes, PIECE * widening, from, to, scale];
        let column = [&window[..], &output, &[first_piece, pieces_per_row, 0]].concat();
        let lists = [[0, 1], [0, STEPS], [0, available]];
        let [indices, steps, lengths] = lists.each_ref().map(|list| list.as_ptr() as u64);
        let collect = [column.as_ptr() as u64, 1, indices, steps, lengths, 2, 1];
        // SAFETY: the fields are those of `Collect` and `Column`, and the lists are alive.
        unsafe { run(library, "collect", 32, &collect) };
        assert!(out.part(2 * row_bytes - PIECE, PIECE) == expected, "type {from} to {to}, {available} steps");
    }
}

/// Defect 22: an index beyond 2^32 gets a weight, apart from the index with the same lower 32 bits, and is drawn.
#[test]
fn indices_beyond_4_billion_are_updated_and_drawn() {
    let Some(library) = kernels() else { return };
    const FIRST: u64 = 7;
    const INDICES: [u64; 2] = [FIRST + 300, FIRST + (1 << 32) + 300];
    let capacity = INDICES[1] - FIRST + 1;
    let (tiles, supers) = (capacity.div_ceil(256), capacity.div_ceil(256 * 256));
    let [weights, last] = [4, 4].map(|bytes| Sparse::new(capacity * bytes));
    let [units, counts] = [tiles; 2].map(|count| Sparse::new(count * 8));
    let [super_units, super_counts, starts] =
        [supers, supers, supers + 1].map(|count| Sparse::new(count * 8));
    let [exponent, max_weight, scale] = [1.0, 100.0, 1.0].map(f64::to_bits);
    let sums = [&units, &counts, &super_units, &super_counts].map(Sparse::address);
    let weights_at = [weights.address(); 2];
    let arrays = [&weights_at[..], &sums, &[FIRST, capacity, exponent, max_weight, scale]].concat();
    let (values, mut refused) = ([4_f32; 2], u64::MAX);
    let (mut drawn, mut drawn_units) = ([0; 2], [0; 2]);
    let given = [INDICES.as_ptr() as u64, values.as_ptr() as u64, 2, last.address(), &raw mut refused as u64];
    let update = [&arrays[..], &given].concat();
    // Two strata of 8 units.
    let out = [&mut drawn, &mut drawn_units].map(|list: &mut [u64; 2]| list.as_mut_ptr() as u64);
    let draws = [starts.address(), 3, 5, 2, 8, 0, 8, 1, 0, out[0], out[1], 0];
    // SAFETY: the fields are those of the kernels' parameters, and the memory has room for the capacity.
    unsafe {
        run(library, "select_claim", 32, &update);
        run(library, "select_apply", 32, &update);
        run(library, "select_starts", 256, &[super_units.address(), supers, starts.address()]);
        run(library, "select_draw", 32, &[&arrays[..], &draws].concat());
    }
    assert_eq!((refused, drawn, drawn_units), (u64::MAX, INDICES, [4; 2]));
}
