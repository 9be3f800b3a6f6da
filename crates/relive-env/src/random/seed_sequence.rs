//! numpy's derivation of a generator's seed words from one number (M. O'Neill's `seed_seq` with better mixing).

const POOL: usize = 4;
const SHIFT: u32 = 16;

/// Returns the seed words of a generator.
pub(super) fn generate<const N: usize>(seed: u64) -> [u64; N] {
    let pool = mix(seed);
    let mut constant = 0x8b51_f9dd_u32;
    let mut words = pool.iter().cycle().map(|word| {
        let mut word = word ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        word = word.wrapping_mul(constant);
        word ^ (word >> SHIFT)
    });
    std::array::from_fn(|_| {
        let mut half = || u64::from(words.next().unwrap_or(0));
        half() | (half() << 32)
    })
}

fn mix(seed: u64) -> [u32; POOL] {
    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = move |word: u32| {
        let mut word = word ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        word = word.wrapping_mul(constant);
        word ^ (word >> SHIFT)
    };
    let entropy = [low(seed), low(seed >> 32), 0, 0];
    let mut pool = entropy.map(&mut hash);
    for source in 0..POOL {
        for target in (0..POOL).filter(|target| *target != source) {
            let hashed = hash(pool[source]);
            let mixed =
                0xca01_f9dd_u32.wrapping_mul(pool[target]).wrapping_sub(0x4973_f715_u32.wrapping_mul(hashed));
            pool[target] = mixed ^ (mixed >> SHIFT);
        }
    }
    pool
}

fn low(seed: u64) -> u32 {
    let [a, b, c, d, ..] = seed.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
