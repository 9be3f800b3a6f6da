// What the tests call, by name: every kernel with its parameters as bytes.
#define LAUNCHED(name, Parameters)                                                                                     \
    extern "C" void emulate_##name(const void *given, unsigned grid, unsigned block) {                                 \
        emulated::run([](const void *bytes) { name(*(const Parameters *)bytes); }, given, grid, block);                \
    }                                                                                                                  \
    extern "C" unsigned long long size_of_##name() { return sizeof(Parameters); }

LAUNCHED(select_claim, Update)
LAUNCHED(select_apply, Update)
LAUNCHED(select_load, Arrays)
LAUNCHED(select_supers, Arrays)
LAUNCHED(select_starts, Starts)
LAUNCHED(select_draw, Draws)
LAUNCHED(select_finish, Finish)
LAUNCHED(select_histogram, Keys)
LAUNCHED(select_collect, Keys)
LAUNCHED(collect, Collect)

// Single functions, for their own tests.
extern "C" unsigned long long emulate_number_below(u64 seed, u64 step, u64 position, u64 below) {
    return number_below(seed, step, position, below);
}
extern "C" unsigned emulate_stream_word(u64 seed, u64 step, u64 index) {
    return stream_word(seed, step, STREAM_RACE_LOW, index);
}
extern "C" float emulate_power(float base, float exponent) { return power(base, exponent); }
extern "C" unsigned emulate_from_f16(unsigned half) { return __float_as_uint(from_f16(half)); }
extern "C" unsigned emulate_to_f16(unsigned bits) { return to_f16(__uint_as_float(bits)); }
extern "C" unsigned emulate_to_bf16(unsigned bits) { return to_bf16(__uint_as_float(bits)); }
