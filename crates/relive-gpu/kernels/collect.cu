// Collection: rows of columns that lie in host memory (or the GPU's own) become one tensor for each column, in one launch.
//
// A warp copies a piece of a row. Its lanes read neighbouring 16 bytes, from 128-byte lines, each of them once and several
// before the first one is used; what comes in at another alignment than it goes out is shifted in registers. The grid is small
// and stays: reading over the bus needs few multiprocessors, and training needs the others. Short rows need many warps, since
// each of them waits for the bus; so blocks are large.

// The most threads of a block.
#define COLLECT_THREADS 1024

// Bytes of output of one piece, a multiple of 512.
#define PIECE 8192
#define IN_FLIGHT 4

// Types of elements; 0 stands for bytes that are copied as they are.
#define TYPE_ANY 0
#define TYPE_U8 1
#define TYPE_F16 2
#define TYPE_BF16 3
#define TYPE_F32 4
#define TYPE_F64 5
#define TYPE_BOOL 6
#define TYPE_I8 7
#define TYPE_I16 8
#define TYPE_U16 9
#define TYPE_I32 10
#define TYPE_U32 11
#define TYPE_I64 12
#define TYPE_U64 13

struct Column {
    // Where row 0 begins, and the bytes from row to row and from step to step.
    u64 source, row_stride, step_bytes;
    // The window: `length` steps from `offset` on, relative to the row's step.
    i64 offset;
    u64 length;
    // 1: what is missing is padded before the data, 0: after it.
    u64 pad_head;
    // 16 bytes of padding, whole elements.
    u64 pad[2];
    u64 out, out_row_bytes, out_step_bytes;
    u64 from, to;
    double scale;
    // The number of the column's first piece, and pieces of a row.
    u64 first_piece, pieces_per_row;
    // 1: only padding is written, since copy engines copy the data.
    u64 pad_only;
};

struct Collect {
    u64 columns, column_count;
    // For each row of the batch: its number in the store, its current step, and how many steps there are.
    u64 indices, steps, lengths;
    u64 rows, pieces;
};

__device__ inline uint4 no_bytes() {
    uint4 none = {0, 0, 0, 0};
    return none;
}

// A piece of a row as bytes: from `begin` to `end` of the row's output.
struct Span {
    u64 begin, end;
};

__device__ inline Span overlap(Span a, Span b) {
    Span both = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    if (both.end < both.begin) both.end = both.begin;
    return both;
}

__device__ inline u32 word_of(uint4 v, u32 word) {
    u32 low = word & 1 ? v.y : v.x, high = word & 1 ? v.w : v.z;
    return word & 2 ? high : low;
}

__device__ inline u8 byte_of(uint4 v, u32 byte) { return (u8)(word_of(v, byte / 4) >> (byte % 4 * 8)); }

// Writes those of 16 bytes at an aligned address that are between `begin` and `end`.
__device__ inline void store_within(u64 address, uint4 v, u64 begin, u64 end) {
    if (address >= begin && address + 16 <= end) {
        *(uint4 *)address = v;
        return;
    }
    for (u32 byte = 0; byte < 16; byte++) {
        if (address + byte >= begin && address + byte < end) *(u8 *)(address + byte) = byte_of(v, byte);
    }
}

__device__ inline u32 shifted(u32 low, u32 high, u32 bits) { return (u32)(((u64)high << 32 | low) >> bits); }

// The 16 bytes from byte `shift` of two neighbouring ones on. All lanes have the same shift.
__device__ inline uint4 joined(uint4 a, uint4 b, u32 shift) {
    u32 bits = shift % 4 * 8;
    uint4 result;
    switch (shift / 4) {
    case 0:
        result.x = shifted(a.x, a.y, bits), result.y = shifted(a.y, a.z, bits);
        result.z = shifted(a.z, a.w, bits), result.w = shifted(a.w, b.x, bits);
        break;
    case 1:
        result.x = shifted(a.y, a.z, bits), result.y = shifted(a.z, a.w, bits);
        result.z = shifted(a.w, b.x, bits), result.w = shifted(b.x, b.y, bits);
        break;
    case 2:
        result.x = shifted(a.z, a.w, bits), result.y = shifted(a.w, b.x, bits);
        result.z = shifted(b.x, b.y, bits), result.w = shifted(b.y, b.z, bits);
        break;
    default:
        result.x = shifted(a.w, b.x, bits), result.y = shifted(b.x, b.y, bits);
        result.z = shifted(b.y, b.z, bits), result.w = shifted(b.z, b.w, bits);
    }
    return result;
}

__device__ inline uint4 from_lane(uint4 v, u32 lane) {
    u64 low = shuffle(v.x | (u64)v.y << 32, lane), high = shuffle(v.z | (u64)v.w << 32, lane);
    uint4 result = {(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)};
    return result;
}

// The aligned 16 bytes at an address, if any of them are between `begin` and `end`: then they are on the same page.
__device__ inline uint4 load_within(u64 address, u64 begin, u64 end) {
    return address + 16 > begin && address < end ? __ldcs((const uint4 *)address) : no_bytes();
}

__device__ inline void copy_bytes(u64 out, u64 source, u64 count) {
    if (count == 0) return;
    u64 first_out = out & ~15ull;
    u64 first_source = source - (out - first_out);
    u32 shift = (u32)(first_source & 15);
    u64 aligned = first_source - shift;
    // Vector v of the source is complete in chunk v - 1 of the output, after what vector v - 1 brought.
    i64 chunks = (i64)((out + count - first_out + 15) / 16);
    u32 lane = this_lane();
    uint4 carried = no_bytes();
    for (i64 base = -(i64)(aligned / 16 % 8); base <= chunks; base += WARP * IN_FLIGHT) {
        uint4 loaded[IN_FLIGHT];
#pragma unroll
        for (u32 load = 0; load < IN_FLIGHT; load++) {
            i64 vector = base + load * WARP + lane;
            loaded[load] = load_within(aligned + (u64)(vector * 16), source, source + count);
        }
#pragma unroll
        for (u32 load = 0; load < IN_FLIGHT; load++) {
            uint4 before = from_lane(loaded[load], (lane + WARP - 1) % WARP);
            uint4 last = before;
            if (lane == 0) before = carried;
            // Lane 0 has received the last vector of this load, which the next one continues.
            carried = last;
            i64 chunk = base + load * WARP + lane - 1;
            if (chunk >= 0 && chunk < chunks) {
                store_within(first_out + (u64)(chunk * 16), joined(before, loaded[load], shift), out, out + count);
            }
        }
    }
}

// Padding: elements divide 16 bytes, and the output begins at a multiple of 16, so that all chunks are alike.
__device__ inline void fill_bytes(u64 out, u64 count, const u64 *pad) {
    uint4 pattern = {(u32)pad[0], (u32)(pad[0] >> 32), (u32)pad[1], (u32)(pad[1] >> 32)};
    for (u64 chunk = (out & ~15ull) + this_lane() * 16; chunk < out + count; chunk += WARP * 16) {
        store_within(chunk, pattern, out, out + count);
    }
}

__device__ inline u32 size_of_type(u64 type) {
    switch (type) {
    case TYPE_U8: case TYPE_BOOL: case TYPE_I8: return 1;
    case TYPE_F32: case TYPE_I32: case TYPE_U32: return 4;
    case TYPE_F64: case TYPE_I64: case TYPE_U64: return 8;
    default: return 2;
    }
}

// NaN keeps its sign and the upper bits of its payload in every conversion, as on the CPU. A GPU's own operations would
// return their own NaN.
__device__ inline bool is_nan(u32 bits) { return (bits & 0x7fffffff) > 0x7f800000; }

// Rounds to nearest, ties to even.
__device__ inline u16 to_bf16(float value) {
    u32 bits = __float_as_uint(value);
    if (is_nan(bits)) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ inline u16 to_f16(float value) {
    u32 bits = __float_as_uint(value);
    u32 sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (u16)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return (u16)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        // Below 2^-14 the unit is 2^-24: adding 0.5 puts it at the lowest bit of the sum.
        float sum = __fadd_rn(__uint_as_float(magnitude), 0.5f);
        return (u16)(sign | (__float_as_uint(sum) - 0x3f000000));
    }
    u32 rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (u16)(sign | (rounded - 0x38000000) >> 13);
}

__device__ inline float from_f16(u32 half) {
    u32 sign = (half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) {
        float magnitude = __fmul_rn((float)fraction, 5.9604644775390625e-8f);
        return __uint_as_float(sign | __float_as_uint(magnitude));
    }
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

__device__ inline float from_f64(u64 bits) {
    if ((bits & 0x7fffffffffffffff) > 0x7ff0000000000000) {
        return __uint_as_float((u32)(bits >> 32 & 0x80000000) | 0x7fc00000 | (u32)(bits >> 29 & 0x7fffff));
    }
    return __double2float_rn(__longlong_as_double((i64)bits));
}

__device__ inline u64 to_f64(float value) {
    u32 bits = __float_as_uint(value);
    if (is_nan(bits)) return (u64)(bits & 0x80000000) << 32 | 0x7ff8ull << 48 | (u64)(bits & 0x7fffff) << 29;
    return (u64)__double_as_longlong((double)value);
}

__device__ inline float scaled(float value, float scale) {
    float product = __fmul_rn(value, scale);
    if (!is_nan(__float_as_uint(product))) return product;
    u32 bits = __float_as_uint(value);
    // Otherwise it is infinity times 0.
    return __uint_as_float(is_nan(bits) ? bits | 0x400000 : 0x7fc00000);
}

// The element at a byte of 16 as f32; integers are rounded to nearest.
__device__ inline float element_of(uint4 v, u32 byte, u64 type) {
    u32 word = word_of(v, byte / 4), low = word >> (byte % 4 * 8);
    switch (type) {
    case TYPE_U8: return (float)(u8)low;
    case TYPE_BOOL: return (u8)low ? 1.0f : 0.0f;
    case TYPE_I8: return (float)(signed char)low;
    case TYPE_I16: return (float)(short)low;
    case TYPE_U16: return (float)(u16)low;
    case TYPE_F16: return from_f16(low & 0xffff);
    case TYPE_BF16: return __uint_as_float(low << 16);
    case TYPE_I32: return (float)(int)word;
    case TYPE_U32: return (float)word;
    case TYPE_F32: return __uint_as_float(word);
    }
    u64 bits = (u64)word_of(v, byte / 4 + 1) << 32 | word;
    return type == TYPE_I64 ? (float)(i64)bits : type == TYPE_U64 ? (float)bits : from_f64(bits);
}

__device__ inline void store_element(u64 address, u64 type, float value) {
    if (type == TYPE_F32) *(u32 *)address = __float_as_uint(value);
    else if (type == TYPE_F64) *(u64 *)address = to_f64(value);
    else *(u16 *)address = type == TYPE_F16 ? to_f16(value) : to_bf16(value);
}

// `count` bytes of elements become elements of another type, times the scale. Elements lie at multiples of their size.
__device__ inline void convert(u64 out, u64 source, u64 count, const Column &column) {
    u32 from = size_of_type(column.from), to = size_of_type(column.to);
    float scale = (float)column.scale;
    for (u64 base = source & ~127ull; base < source + count; base += WARP * IN_FLIGHT * 16) {
        uint4 loaded[IN_FLIGHT];
#pragma unroll
        for (u32 load = 0; load < IN_FLIGHT; load++) {
            loaded[load] = load_within(base + (load * WARP + this_lane()) * 16, source, source + count);
        }
#pragma unroll
        for (u32 load = 0; load < IN_FLIGHT; load++) {
            u64 address = base + (load * WARP + this_lane()) * 16;
            for (u32 byte = 0; byte < 16; byte += from) {
                if (address + byte < source || address + byte >= source + count) continue;
                float value = scaled(element_of(loaded[load], byte, column.from), scale);
                store_element(out + (address + byte - source) / from * to, column.to, value);
            }
        }
    }
}

__device__ inline void collect_piece(const Collect &p, const Column &column, u64 piece) {
    u64 row = piece, part_of_row = 0;
    if (column.pieces_per_row > 1) {
        row = piece / column.pieces_per_row;
        part_of_row = piece % column.pieces_per_row;
    }
    i64 wanted = ((const i64 *)p.steps)[row] + column.offset;
    i64 available = (i64)((const u64 *)p.lengths)[row];
    i64 begin = wanted > 0 ? wanted : 0;
    i64 end = wanted + (i64)column.length;
    if (end > available) end = available;
    u64 steps = end > begin ? (u64)(end - begin) : 0;

    Span part = {part_of_row * PIECE, (part_of_row + 1) * PIECE};
    u64 before = column.pad_head ? (column.length - steps) * column.out_step_bytes : 0;
    Span head = {0, before}, data = {before, before + steps * column.out_step_bytes};
    Span tail = {data.end, column.out_row_bytes};
    u64 out = column.out + row * column.out_row_bytes;

    Span padded = overlap(part, head);
    fill_bytes(out + padded.begin, padded.end - padded.begin, column.pad);
    padded = overlap(part, tail);
    fill_bytes(out + padded.begin, padded.end - padded.begin, column.pad);

    Span copied = overlap(part, data);
    u64 source = column.source + ((const u64 *)p.indices)[row] * column.row_stride + (u64)begin * column.step_bytes;
    u64 offset = copied.begin - data.begin, count = copied.end - copied.begin;
    if (count == 0 || column.pad_only) return;
    if (column.from == TYPE_ANY) {
        copy_bytes(out + copied.begin, source + offset, count);
        return;
    }
    // Pieces hold whole elements, since elements divide them, but begin within a window wherever its data does.
    u64 from = size_of_type(column.from), to = size_of_type(column.to);
    convert(out + copied.begin, source + offset / to * from, count / to * from, column);
}

extern "C" __global__ void __launch_bounds__(COLLECT_THREADS) collect(Collect p) {
    const Column *columns = (const Column *)p.columns;
    for (u64 piece = this_warp(); piece < p.pieces; piece += all_warps()) {
        u64 column = 0;
        while (column + 1 < p.column_count && columns[column + 1].first_piece <= piece) column++;
        collect_piece(p, columns[column], piece - columns[column].first_piece);
    }
}
