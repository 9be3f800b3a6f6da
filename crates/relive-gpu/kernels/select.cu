// Selection; src/select is its twin on the processor, and says what everything means.

#define TILE 256
#define PER_LANE (TILE / WARP)

#define MEASURE_UNITS 0
#define MEASURE_COUNT 1

#define KEY_LARGEST 0
#define KEY_OLDEST 1
#define KEY_NEWEST 2
#define KEY_RACE 3

// The arrays of one rank. `masses` is `weights` where the exponent is 1.
struct Arrays {
    u64 weights, masses, unit_tiles, count_tiles, unit_supers, count_supers;
    u64 first, capacity;
    double exponent, max_weight, scale;
};

__device__ inline u64 share_of(u64 measure, float mass, double scale) {
    return measure == MEASURE_UNITS ? units_of(mass, scale) : mass > 0.0f ? 1 : 0;
}

// ---------------------------------------------------------------------------------------------------------- updates

struct Update {
    Arrays arrays;
    u64 indices, values, count;
    // One word per index, 0 between updates: the last number of the update that is for this index, plus 1.
    u64 last;
    // The first number of the update that is refused.
    u64 refused;
};

__device__ inline bool is_accepted(const Update &p, u64 number, u64 *local) {
    *local = ((const u64 *)p.indices)[number] - p.arrays.first;
    float value = ((const float *)p.values)[number];
    return *local < p.arrays.capacity && value >= 0.0f && (double)value <= p.arrays.max_weight;
}

KERNEL select_claim(Update p) {
    for (u64 number = this_thread(); number < p.count; number += all_threads()) {
        u64 local;
        if (is_accepted(p, number, &local)) {
            atomicMax((u32 *)p.last + local, (u32)number + 1);
        } else {
            atomicMin((u64 *)p.refused, number);
        }
    }
}

__device__ inline void add_change(u64 sums, u64 position, u64 old_share, u64 new_share) {
    // Changes wrap, and so do sums on the way: in the end they are the sums of what is there.
    if (old_share != new_share) atomicAdd((u64 *)sums + position, new_share - old_share);
}

KERNEL select_apply(Update p) {
    bool refused = *(const u64 *)p.refused != NOTHING;
    const Arrays &arrays = p.arrays;
    for (u64 number = this_thread(); number < p.count; number += all_threads()) {
        u64 local;
        if (!is_accepted(p, number, &local)) continue;
        u32 *last = (u32 *)p.last + local;
        if (refused) {
            *last = 0;
            continue;
        }
        // Only the last one for an index goes on; the others see its number, or the 0 that it leaves.
        if (*last != (u32)number + 1) continue;
        *last = 0;
        float weight = ((const float *)p.values)[number];
        float mass = mass_of(weight, (float)arrays.exponent);
        float old = ((float *)arrays.masses)[local];
        ((float *)arrays.weights)[local] = weight;
        ((float *)arrays.masses)[local] = mass;
        u64 old_units = units_of(old, arrays.scale), new_units = units_of(mass, arrays.scale);
        add_change(arrays.unit_tiles, local / TILE, old_units, new_units);
        add_change(arrays.unit_supers, local / TILE / TILE, old_units, new_units);
        u64 was = old > 0.0f ? 1 : 0, is = mass > 0.0f ? 1 : 0;
        add_change(arrays.count_tiles, local / TILE, was, is);
        add_change(arrays.count_supers, local / TILE / TILE, was, is);
    }
}

// Masses and sums of tiles from the weights: one warp for each tile.
KERNEL select_load(Arrays p) {
    u64 tiles = (p.capacity + TILE - 1) / TILE;
    for (u64 tile = this_warp(); tile < tiles; tile += all_warps()) {
        u64 units = 0, count = 0;
        for (u32 part = 0; part < PER_LANE; part++) {
            u64 local = tile * TILE + part * WARP + this_lane();
            if (local >= p.capacity) continue;
            float mass = mass_of(((const float *)p.weights)[local], (float)p.exponent);
            ((float *)p.masses)[local] = mass;
            units += units_of(mass, p.scale);
            count += mass > 0.0f ? 1 : 0;
        }
        units = sum_so_far(units);
        count = sum_so_far(count);
        if (this_lane() == WARP - 1) {
            ((u64 *)p.unit_tiles)[tile] = units;
            ((u64 *)p.count_tiles)[tile] = count;
        }
    }
}

// Sums of super-tiles from those of tiles.
KERNEL select_supers(Arrays p) {
    u64 tiles = (p.capacity + TILE - 1) / TILE;
    u64 supers = (tiles + TILE - 1) / TILE;
    for (u64 super = this_warp(); super < supers; super += all_warps()) {
        u64 units = 0, count = 0;
        for (u32 part = 0; part < PER_LANE; part++) {
            u64 tile = super * TILE + part * WARP + this_lane();
            units += tile < tiles ? ((const u64 *)p.unit_tiles)[tile] : 0;
            count += tile < tiles ? ((const u64 *)p.count_tiles)[tile] : 0;
        }
        units = sum_so_far(units);
        count = sum_so_far(count);
        if (this_lane() == WARP - 1) {
            ((u64 *)p.unit_supers)[super] = units;
            ((u64 *)p.count_supers)[super] = count;
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ draws

struct Starts {
    u64 sums, count;
    // Where each begins, and after the last one the whole.
    u64 starts;
};

// One block: warps add up 256 sums at a time, after what came before.
KERNEL select_starts(Starts p) {
    __shared__ u64 warps[THREADS / WARP];
    u64 before = 0;
    u64 *starts = (u64 *)p.starts;
    for (u64 first = 0; first < p.count; first += THREADS) {
        u64 position = first + threadIdx.x;
        u64 own = position < p.count ? ((const u64 *)p.sums)[position] : 0;
        u64 sum = sum_so_far(own);
        if (this_lane() == WARP - 1) warps[threadIdx.x / WARP] = sum;
        __syncthreads();
        u64 block = 0;
        for (u32 warp = 0; warp < THREADS / WARP; warp++) {
            if (warp == threadIdx.x / WARP) sum += block;
            block += warps[warp];
        }
        if (position < p.count) starts[position] = before + sum - own;
        before += block;
        __syncthreads();
    }
    if (threadIdx.x == 0) starts[p.count] = before;
}

struct Draws {
    Arrays arrays;
    u64 starts;
    u64 seed, step, count, total;
    // This rank's part of the whole mass.
    u64 own_start, own_end;
    u64 stratified, measure;
    // For each draw the global index and its units; NOTHING for those of other ranks.
    u64 out_indices, out_units;
    // If not 0: the smallest units of all draws.
    u64 out_least;
};

__device__ inline u64 stratum(const Draws &p, u64 position) {
    return position * (p.total / p.count) + position * (p.total % p.count) / p.count;
}

__device__ inline u64 place_of(const Draws &p, u64 position) {
    if (!p.stratified) return number_below(p.seed, p.step, position, p.total);
    u64 begin = stratum(p, position), end = stratum(p, position + 1);
    return begin + number_below(p.seed, p.step, position, end - begin);
}

// The lane whose shares contain `rest`, and what is left of it there. Shares of all lanes contain it.
__device__ inline u32 find_lane(u64 own, u64 *rest) {
    u64 sum = sum_so_far(own);
    u32 after = __ballot_sync(ALL_LANES, *rest < sum);
    u32 lane = (u32)__ffs((int)after) - 1;
    *rest -= shuffle(sum - own, lane);
    return lane;
}

// One warp for each draw: three searches, the last two of 256 numbers, eight for each lane.
KERNEL select_draw(Draws p) {
    const Arrays &arrays = p.arrays;
    u64 tiles = (arrays.capacity + TILE - 1) / TILE;
    u64 supers = (tiles + TILE - 1) / TILE;
    const u64 *starts = (const u64 *)p.starts;
    const u64 *sums = (const u64 *)(p.measure == MEASURE_UNITS ? arrays.unit_tiles : arrays.count_tiles);
    const float *masses = (const float *)arrays.masses;
    u64 least = NOTHING;
    for (u64 draw = this_warp(); draw < p.count; draw += all_warps()) {
        u64 place = place_of(p, draw);
        if (place < p.own_start || place >= p.own_end) {
            if (this_lane() == 0) ((u64 *)p.out_indices)[draw] = NOTHING;
            continue;
        }
        u64 rest = place - p.own_start;
        // The last super-tile that begins at or before the place.
        u64 low = 0, high = supers;
        while (high - low > 1) {
            u64 middle = (low + high) / 2;
            if (starts[middle] <= rest) low = middle;
            else high = middle;
        }
        rest -= starts[low];

        u64 shares[PER_LANE], own = 0;
        u64 tile = low * TILE + this_lane() * PER_LANE;
        for (u32 part = 0; part < PER_LANE; part++) {
            shares[part] = tile + part < tiles ? sums[tile + part] : 0;
            own += shares[part];
        }
        u32 lane = find_lane(own, &rest);
        for (u32 part = 0; part < PER_LANE - 1 && rest >= shares[part] && this_lane() == lane; part++) {
            rest -= shares[part];
            tile++;
        }
        tile = shuffle(tile, lane);
        rest = shuffle(rest, lane);

        own = 0;
        u64 local = tile * TILE + this_lane() * PER_LANE;
        for (u32 part = 0; part < PER_LANE; part++) {
            bool there = local + part < arrays.capacity;
            shares[part] = there ? share_of(p.measure, masses[local + part], arrays.scale) : 0;
            own += shares[part];
        }
        lane = find_lane(own, &rest);
        if (this_lane() == lane) {
            for (u32 part = 0; part < PER_LANE - 1 && rest >= shares[part]; part++) {
                rest -= shares[part];
                local++;
            }
            u64 units = units_of(masses[local], arrays.scale);
            ((u64 *)p.out_indices)[draw] = arrays.first + local;
            ((u64 *)p.out_units)[draw] = units;
            if (units < least) least = units;
        }
    }
    if (p.out_least != 0 && least != NOTHING) atomicMin((u64 *)p.out_least, least);
}

struct Finish {
    u64 units, count, least;
    // What a probability is a part of: the units of all indices, or, for equal probabilities, their number.
    u64 whole, equal;
    // Importance weights are 1 unless `prioritized` is 1.
    u64 prioritized;
    double beta;
    u64 out_probabilities, out_importance;
};

// Probabilities and importance weights of draws; `finish` in src/select/selector.rs.
KERNEL select_finish(Finish p) {
    double least = (double)*(const u64 *)p.least;
    for (u64 draw = this_thread(); draw < p.count; draw += all_threads()) {
        double units = (double)((const u64 *)p.units)[draw];
        double part = quotient(p.equal ? 1.0 : units, (double)p.whole);
        ((float *)p.out_probabilities)[draw] = __double2float_rn(part);
        double importance = p.prioritized ? portable_exp2(mul(p.beta, portable_log2(quotient(least, units)))) : 1.0;
        ((float *)p.out_importance)[draw] = __double2float_rn(importance);
    }
}

// ------------------------------------------------------------------------------------- selections of each index once

#define DIGITS 2048

struct Keys {
    Arrays arrays;
    u64 kind, inserted, seed, step;
    // For a histogram: keys whose bits above the digit are these. With `of_index`, indices of the key `exact`.
    u64 prefix, shift, of_index, exact;
    u64 histogram;
    // For collecting: keys up to this one, and of this one indices up to that.
    u64 limit_key, limit_index;
    u64 out_keys, out_indices, out_units, out_count, room;
};

// False for what is not selectable.
__device__ inline bool key_of(const Keys &p, u64 local, u64 *key) {
    float weight = ((const float *)p.arrays.weights)[local];
    if (!(weight > 0.0f)) return false;
    u64 index = p.arrays.first + local;
    if (p.kind == KEY_LARGEST) {
        *key = (u64)~__float_as_uint(weight);
        *key &= 0xffffffffull;
    } else if (p.kind == KEY_RACE) {
        u32 high = stream_word(p.seed, p.step, STREAM_RACE_HIGH, index);
        u32 low = stream_word(p.seed, p.step, STREAM_RACE_LOW, index);
        double mass = (double)((const float *)p.arrays.masses)[local];
        *key = (u64)__double_as_longlong(quotient(exponential(high, low), mass));
    } else {
        u64 number = ((const u64 *)p.inserted)[local];
        *key = p.kind == KEY_OLDEST ? number : ~number;
    }
    return true;
}

__device__ inline u64 above(u64 number, u64 shift) { return shift + 11 >= 64 ? 0 : number >> (shift + 11); }

// How many keys have each value of the digit, among those with the given bits above it.
KERNEL select_histogram(Keys p) {
    __shared__ u32 counts[DIGITS];
    for (u32 digit = threadIdx.x; digit < DIGITS; digit += THREADS) counts[digit] = 0;
    __syncthreads();
    for (u64 local = this_thread(); local < p.arrays.capacity; local += all_threads()) {
        u64 key;
        if (!key_of(p, local, &key)) continue;
        u64 number = p.of_index ? p.arrays.first + local : key;
        if (p.of_index && key != p.exact) continue;
        if (above(number, p.shift) == p.prefix) atomicAdd(&counts[(number >> p.shift) % DIGITS], 1u);
    }
    __syncthreads();
    for (u32 digit = threadIdx.x; digit < DIGITS; digit += THREADS) {
        if (counts[digit] != 0) atomicAdd((u64 *)p.histogram + digit, (u64)counts[digit]);
    }
}

// Writes the keys up to the limit, in no order: there are about as many as are wanted.
KERNEL select_collect(Keys p) {
    for (u64 local = this_thread(); local < p.arrays.capacity; local += all_threads()) {
        u64 key, index = p.arrays.first + local;
        if (!key_of(p, local, &key)) continue;
        if (key > p.limit_key || (key == p.limit_key && index > p.limit_index)) continue;
        u64 position = atomicAdd((u64 *)p.out_count, (u64)1);
        if (position < p.room) {
            ((u64 *)p.out_keys)[position] = key;
            ((u64 *)p.out_indices)[position] = index;
            ((u64 *)p.out_units)[position] = units_of(((const float *)p.arrays.masses)[local], p.arrays.scale);
        }
    }
}
