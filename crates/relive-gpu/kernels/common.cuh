// What all kernels share. The files of this folder are compiled as one text, in the order of `SOURCES` in src/cuda/image.rs:
// by NVRTC for GPUs, and by the tests as C++ for the processor, with tests/support/emulate.h in place of CUDA.
//
// Every kernel takes one struct by value whose fields have 64 bits, so that nothing is cut off beyond 2 GiB and the host's
// structs have no padding. Addresses are whole numbers there.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define WARP 32
#define ALL_LANES 0xffffffffu
#define NOTHING 0xffffffffffffffffull

// Threads of a block, except where a kernel says otherwise.
#define THREADS 256
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

__device__ inline u64 this_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline u64 all_threads() { return (u64)gridDim.x * blockDim.x; }
__device__ inline u32 this_lane() { return threadIdx.x % WARP; }
__device__ inline u64 this_warp() { return this_thread() / WARP; }
__device__ inline u64 all_warps() { return all_threads() / WARP; }

__device__ inline u64 shuffle(u64 value, u32 lane) { return __shfl_sync(ALL_LANES, value, lane); }

// The sum of the lanes up to this one.
__device__ inline u64 sum_so_far(u64 value) {
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        u32 lane = this_lane();
        u64 before = shuffle(value, lane >= distance ? lane - distance : lane);
        if (lane >= distance) value += before;
    }
    return value;
}
