// Philox4x32-10; see src/select/philox.rs.

#define STREAM_DRAWS 0u
#define STREAM_RACE_HIGH 1u
#define STREAM_RACE_LOW 2u

struct Block {
    u32 words[4];
};

__device__ inline Block philox(u64 seed, u64 step, u32 stream, u64 position) {
    u32 a = (u32)position, b = (u32)(position >> 32);
    u32 c = (u32)step, d = (u32)(step >> 32) | stream << 24;
    u32 key0 = (u32)seed, key1 = (u32)(seed >> 32);
    for (u32 round = 0; round < 10; round++) {
        u64 first = (u64)0xD2511F53u * a, second = (u64)0xCD9E8D57u * c;
        a = (u32)(second >> 32) ^ b ^ key0;
        b = (u32)second;
        c = (u32)(first >> 32) ^ d ^ key1;
        d = (u32)first;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    Block block = {{a, b, c, d}};
    return block;
}

// The upper 64 bits of a 128-bit number times `below`, over 2^64: a number in 0..below.
__device__ inline u64 number_below(u64 seed, u64 step, u64 position, u64 below) {
    Block block = philox(seed, step, STREAM_DRAWS, position);
    u64 low = block.words[0] | (u64)block.words[1] << 32;
    u64 high = block.words[2] | (u64)block.words[3] << 32;
    u64 carry = __umul64hi(low, below);
    u64 sum = high * below + carry;
    return __umul64hi(high, below) + (sum < carry ? 1 : 0);
}

__device__ inline u32 stream_word(u64 seed, u64 step, u32 stream, u64 index) {
    Block block = philox(seed, step, stream, index / 4);
    u32 word = (u32)index & 3;
    // Without an index that is known at run time only: arrays with such indices are not in registers.
    u32 low = word & 1 ? block.words[1] : block.words[0];
    u32 high = word & 1 ? block.words[3] : block.words[2];
    return word & 2 ? high : low;
}
