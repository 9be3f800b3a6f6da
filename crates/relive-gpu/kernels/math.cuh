// Logarithms and powers with the bits of src/select/math.rs: the same steps, in instructions that are never fused.

#define LN_2 0.6931471805599453
#define LOG2_E 1.4426950408889634
#define SQRT_2 1.4142135623730951

__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double sub(double a, double b) { return __dadd_rn(a, -b); }
__device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double quotient(double a, double b) { return __ddiv_rn(a, b); }

__device__ inline double twice_atanh(double s) {
    const double terms[11] = {1.0,        1.0 / 3.0,  1.0 / 5.0,  1.0 / 7.0,  1.0 / 9.0, 1.0 / 11.0,
                              1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0};
    double square = mul(s, s), sum = 0.0;
    for (int term = 10; term >= 0; term--) sum = add(mul(sum, square), terms[term]);
    return mul(mul(2.0, s), sum);
}

struct Parts {
    double exponent, fraction;
};

__device__ inline Parts split(double x) {
    u64 bits = (u64)__double_as_longlong(x);
    i64 exponent = (i64)(bits >> 52) - 1023;
    double fraction = __longlong_as_double((i64)((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull));
    bool large = fraction >= SQRT_2;
    Parts parts = {(double)(large ? exponent + 1 : exponent), large ? mul(fraction, 0.5) : fraction};
    return parts;
}

__device__ inline double log_of_fraction(double fraction) {
    return twice_atanh(quotient(sub(fraction, 1.0), add(fraction, 1.0)));
}

__device__ inline double portable_log2(double x) {
    Parts parts = split(x);
    return add(parts.exponent, mul(log_of_fraction(parts.fraction), LOG2_E));
}

__device__ inline double portable_exp2(double x) {
    const double terms[14] = {1.0,
                              1.0,
                              1.0 / 2.0,
                              1.0 / 6.0,
                              1.0 / 24.0,
                              1.0 / 120.0,
                              1.0 / 720.0,
                              1.0 / 5040.0,
                              1.0 / 40320.0,
                              1.0 / 362880.0,
                              1.0 / 3628800.0,
                              1.0 / 39916800.0,
                              1.0 / 479001600.0,
                              1.0 / 6227020800.0};
    if (x < -1000.0) return 0.0;
    if (x > 1000.0) return __longlong_as_double(0x7ff0000000000000ll);
    double whole = sub(add(x, 6755399441055744.0), 6755399441055744.0);
    double rest = mul(sub(x, whole), LN_2), sum = 0.0;
    for (int term = 13; term >= 0; term--) sum = add(mul(sum, rest), terms[term]);
    return mul(sum, __longlong_as_double((i64)((u64)add(whole, 1023.0) << 52)));
}

__device__ inline float power(float base, float exponent) {
    if (exponent == 1.0f) return base;
    float rounded = __double2float_rn(portable_exp2(mul((double)exponent, portable_log2((double)base))));
    return rounded < 1.17549435e-38f ? 1.17549435e-38f : rounded;
}

__device__ inline float mass_of(float weight, float exponent) {
    return weight > 0.0f ? power(weight, exponent) : 0.0f;
}

__device__ inline double exponential(u32 high, u32 low) {
    double c = mul(add(mul((double)high, 4294967296.0), add((double)low, 0.5)), 1.0 / 18446744073709551616.0);
    double rest = c < 1.0 ? sub(1.0, c) : 1.1102230246251565e-16;
    if (mul(rest, SQRT_2) >= 1.0) return twice_atanh(quotient(c, sub(2.0, c)));
    Parts parts = split(rest);
    return sub(0.0, add(mul(parts.exponent, LN_2), log_of_fraction(parts.fraction)));
}

// A mass in units of the grid; see src/select/grid.rs.
__device__ inline u64 units_of(float mass, double scale) {
    u64 units = __double2ull_rn(mul((double)mass, scale));
    return mass > 0.0f && units == 0 ? 1 : units;
}
