// What the machine allows: GB/s of the copy engine and of kernels that read memory of the host over the bus.
// `nvcc -O3 -arch=native -o ceilings ceilings.cu && ./ceilings GIB` prints one line of JSON for each measurement. It shares no
// code with relive-gpu, whose figures are compared with these.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <chrono>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                   \
    do {                                                                                                              \
        cudaError_t error = (call);                                                                                   \
        if (error != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                            \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

// Every thread reads 16 bytes at a time, `UNROLL` of them before the first is used, and writes them to the device.
template <int UNROLL>
__global__ void read_host(const uint4 *from, uint4 *to, size_t count, size_t to_count) {
    size_t all = (size_t)gridDim.x * blockDim.x;
    for (size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; at + (UNROLL - 1) * all < count; at += UNROLL * all) {
        uint4 loaded[UNROLL];
#pragma unroll
        for (int load = 0; load < UNROLL; load++) loaded[load] = __ldcs(from + at + load * all);
#pragma unroll
        for (int load = 0; load < UNROLL; load++) to[(at + load * all) % to_count] = loaded[load];
    }
}

static double seconds() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

template <class Work> static double best_ms(Work work) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    double least = 1e30;
    double start = seconds();
    for (int round = 0; round < 3 || (seconds() - start < 0.2 && round < 200); round++) {
        CHECK(cudaEventRecord(begin));
        work();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (ms < least) least = ms;
    }
    return least;
}

static char *mapped(size_t bytes, bool huge) {
    char *memory = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    std::vector<std::thread> threads;
    for (size_t part = 0; part < 8; part++) {
        threads.emplace_back([=] {
            for (size_t at = bytes / 8 * part; at < bytes / 8 * (part + 1); at += 64) *(uint64_t *)(memory + at) = at * 0x9e3779b97f4a7c15ull;
        });
    }
    for (auto &thread : threads) thread.join();
    return memory;
}

int main(int argc, char **argv) {
    size_t gib = argc > 1 ? atoi(argv[1]) : 8;
    size_t bytes = gib << 30, out_bytes = 1ull << 30;
    char *out;
    CHECK(cudaMalloc(&out, out_bytes));
    for (int huge = 1; huge >= 0; huge--) {
        double begin = seconds();
        char *host = mapped(bytes, huge);
        double touched = seconds();
        CHECK(cudaHostRegister(host, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
        double registered = seconds();
        printf("{\"what\": \"register\", \"huge\": %d, \"gib\": %zu, \"touch_s\": %.3f, \"register_s\": %.3f}\n", huge, gib, touched - begin, registered - touched);
        void *device_view;
        CHECK(cudaHostGetDevicePointer(&device_view, host, 0));
        for (size_t size : {(size_t)64 << 10, (size_t)256 << 10, (size_t)1 << 20, (size_t)16 << 20, (size_t)256 << 20, (size_t)1 << 30}) {
            double ms = best_ms([&] { CHECK(cudaMemcpyAsync(out, host, size, cudaMemcpyHostToDevice)); });
            printf("{\"what\": \"copy engine\", \"huge\": %d, \"bytes\": %zu, \"gb_per_s\": %.2f}\n", huge, size, size / ms / 1e6);
        }
        // Copies of rows that are not neighbours, as one call for each row, in one or two streams.
        cudaStream_t streams[2];
        for (auto &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (size_t size : {(size_t)64 << 10, (size_t)256 << 10, (size_t)1 << 20}) {
            for (int used : {1, 2}) {
                size_t rows = 512;
                double start = seconds();
                for (int round = 0; round < 5; round++) {
                    for (size_t row = 0; row < rows; row++) {
                        size_t at = (row * 0x9e3779b97f4a7c15ull) % (bytes / size) * size;
                        CHECK(cudaMemcpyAsync(out + row * size, host + at, size, cudaMemcpyHostToDevice, streams[row % used]));
                    }
                    CHECK(cudaDeviceSynchronize());
                }
                double each = (seconds() - start) / 5;
                printf("{\"what\": \"row copies\", \"huge\": %d, \"bytes\": %zu, \"streams\": %d, \"gb_per_s\": %.2f}\n", huge, size, used, rows * size / each / 1e9);
            }
        }
        for (size_t size : {(size_t)256 << 20, bytes}) {
            for (int blocks : {8, 16, 32, 132}) {
                for (int threads : {256, 1024}) {
                    auto from = (const uint4 *)device_view;
                    auto to = (uint4 *)out;
                    double four = best_ms([&] { read_host<4><<<blocks, threads>>>(from, to, size / 16, out_bytes / 16); });
                    double eight = best_ms([&] { read_host<8><<<blocks, threads>>>(from, to, size / 16, out_bytes / 16); });
                    CHECK(cudaGetLastError());
                    printf("{\"what\": \"kernel\", \"huge\": %d, \"bytes\": %zu, \"blocks\": %d, \"threads\": %d, \"gb_per_s\": %.2f, \"unroll_8\": %.2f}\n",
                           huge, size, blocks, threads, size / four / 1e6, size / eight / 1e6);
                }
            }
            if (size == bytes) break;
        }
        CHECK(cudaHostUnregister(host));
        munmap(host, bytes);
    }
    return 0;
}
