// CUDA's words for a C++ compiler, so that the kernels run on the processor: block after block, the threads of a block as
// fibers that take turns where they wait for each other.
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define __global__
#define __device__ static
#define __shared__ static
#define __launch_bounds__(threads)

struct uint4 {
    unsigned int x, y, z, w;
} __attribute__((aligned(16)));

struct Index {
    unsigned int x;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

// A failed check of the compiler raises SIGILL or SIGTRAP, depending on the processor.
static void misaligned(int) {
    static const char text[] = "a kernel was stopped; it probably accesses an address that is not a multiple of its words' size\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(1);
}
static const auto installed = {signal(SIGILL, misaligned), signal(SIGTRAP, misaligned)};

const size_t STACK = 128 << 10;
static ucontext_t scheduler;
static std::vector<ucontext_t> fibers;
static std::vector<char> stacks;
static std::vector<char> finished;
static std::vector<unsigned> barriers;
static unsigned long long exchanged[1024];
static void (*body)(const void *);
static const void *parameters;

static void run_fiber() {
    body(parameters);
    finished[threadIdx.x] = 1;
    swapcontext(&fibers[threadIdx.x], &scheduler);
}

// Waits until `first .. end` have come as far: `turn` counts how often each thread has waited.
static void wait_for(unsigned first, unsigned end) {
    unsigned self = threadIdx.x;
    unsigned mine = ++barriers[self];
    for (;;) {
        bool all = true;
        for (unsigned thread = first; thread < end; thread++) all &= barriers[thread] >= mine || finished[thread];
        if (all) return;
        swapcontext(&fibers[self], &scheduler);
    }
}

static void warp_barrier() {
    unsigned first = threadIdx.x / 32 * 32;
    wait_for(first, first + 32);
}

static void run_block() {
    unsigned threads = blockDim.x;
    finished.assign(threads, 0);
    barriers.assign(threads, 0);
    fibers.resize(threads);
    stacks.resize(threads * STACK);
    for (unsigned thread = 0; thread < threads; thread++) {
        getcontext(&fibers[thread]);
        fibers[thread].uc_stack.ss_sp = &stacks[thread * STACK];
        fibers[thread].uc_stack.ss_size = STACK;
        fibers[thread].uc_link = nullptr;
        makecontext(&fibers[thread], run_fiber, 0);
    }
    for (bool left = true; left;) {
        left = false;
        for (unsigned thread = 0; thread < threads; thread++) {
            if (finished[thread]) continue;
            left = true;
            threadIdx.x = thread;
            swapcontext(&scheduler, &fibers[thread]);
        }
    }
}

static void run(void (*kernel)(const void *), const void *given, unsigned grid, unsigned block) {
    body = kernel;
    parameters = given;
    gridDim.x = grid;
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) run_block();
}

} // namespace emulated

static inline void __syncthreads() { emulated::wait_for(0, blockDim.x); }

template <typename T> static inline T __shfl_sync(unsigned, T value, unsigned lane) {
    unsigned self = threadIdx.x, warp = self / 32 * 32;
    emulated::exchanged[self] = (unsigned long long)value;
    emulated::warp_barrier();
    T result = (T)emulated::exchanged[warp + lane % 32];
    emulated::warp_barrier();
    return result;
}

static inline unsigned __ballot_sync(unsigned, int predicate) {
    unsigned self = threadIdx.x, warp = self / 32 * 32;
    emulated::exchanged[self] = predicate != 0;
    emulated::warp_barrier();
    unsigned result = 0;
    for (unsigned lane = 0; lane < 32; lane++) result |= (unsigned)emulated::exchanged[warp + lane] << lane;
    emulated::warp_barrier();
    return result;
}

// One thread runs at a time.
template <typename T> static inline T atomicAdd(T *at, T value) {
    T old = *at;
    *at = old + value;
    return old;
}
template <typename T> static inline void atomicMin(T *at, T value) {
    if (value < *at) *at = value;
}
template <typename T> static inline void atomicMax(T *at, T value) {
    if (value > *at) *at = value;
}

template <typename To, typename From> static inline To bits_as(From from) {
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
// NVIDIA's operations return this NaN for every NaN.
static inline float of_gpu(float a) { return a == a ? a : bits_as<float>(0x7fffffffu); }
static inline float __fadd_rn(float a, float b) { return of_gpu(a + b); }
static inline float __fmul_rn(float a, float b) { return of_gpu(a * b); }
static inline unsigned long long __double2ull_rn(double a) { return (unsigned long long)nearbyint(a); }
static inline float __double2float_rn(double a) { return of_gpu((float)a); }
static inline unsigned __float_as_uint(float a) { return bits_as<unsigned>(a); }
static inline float __uint_as_float(unsigned a) { return bits_as<float>(a); }
static inline long long __double_as_longlong(double a) { return bits_as<long long>(a); }
static inline double __longlong_as_double(long long a) { return bits_as<double>(a); }
template <typename T> static inline T __ldcs(const T *at) { return *at; }
