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
LAUNCHED(select_histogram, Keys)
LAUNCHED(select_collect, Keys)
LAUNCHED(collect, Collect)
